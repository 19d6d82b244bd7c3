/**
 * The only cases in which the receiver's verdict may differ from that of the
 * provider's own package.
 *
 * @module
 */
import { macOf } from "../support/sign.ts";
import { isFaulty } from "./secrets.ts";
import { HEADERS, NOW, type VerifierCase } from "./verifier_case.ts";

/** Something that the packages let pass and the receiver refuses. */
export interface Strictness {
  readonly name: string;
  readonly reason: string;
  readonly refuses: (delivery: VerifierCase) => boolean;
}

const TOLERANCE_SECONDS = 300;
const MAX_SIGNATURES = 8;
const MAX_HEADER_LENGTH = 4_096;

/** By scheme; the plain one's header is a MAC and nothing more. */
export const STRICTER: Readonly<
  Record<VerifierCase["scheme"], readonly Strictness[]>
> = {
  "hmac-sha256-hex": [faultySecret(), ofBothProviders()],
  "stripe": [
    faultySecret(),
    ofBothProviders(),
    {
      name: "dated ahead",
      reason: "the package looks at the past only, so a t far ahead never ages",
      refuses: (delivery) =>
        parseInt(times(delivery).at(-1) ?? "") > NOW + TOLERANCE_SECONDS,
    },
    {
      name: "several t",
      reason: "the package takes the last; a header joined from two is refused",
      refuses: (delivery) => times(delivery).length > 1,
    },
    {
      name: "t that is not 1 to 10 digits",
      reason: "the package reads the number at the beginning of 123abc",
      refuses: (delivery) =>
        times(delivery).some((time) => !/^[0-9]{1,10}$/.test(time)),
    },
    {
      name: "white space",
      reason: "the sender writes none; two joined headers have some",
      refuses: (delivery) => /\s/.test(value(delivery)),
    },
    {
      name: "an entry without =",
      reason: "the header is not in the scheme",
      refuses: (delivery) =>
        value(delivery).split(",").some((entry) => !entry.includes("=")),
    },
    {
      name: "something behind the MAC",
      reason: "the package drops what follows a second =",
      refuses: (delivery) => !stripeMacs(delivery).some(isValid(delivery)),
    },
    {
      name: "more than 8 signatures",
      reason: "nobody rolls that many secrets; only the first 8 are looked at",
      refuses: (delivery) =>
        !stripeMacs(delivery).slice(0, MAX_SIGNATURES).some(isValid(delivery)),
    },
    overLong(),
  ],
  "standard-webhooks": [
    faultySecret(),
    ofBothProviders(),
    {
      name: "an id with a dot",
      reason: "a dot makes the signed text ambiguous",
      refuses: ({ headers }) => id(headers).includes("."),
    },
    {
      name: "an id that is long, or not visible ASCII, or has a comma",
      reason: "ids are short and plain; a comma comes from two joined headers",
      refuses: ({ headers }) =>
        id(headers).length > 255 ||
        [...id(headers)].some((c) => c < "!" || c > "~" || c === ","),
    },
    {
      name: "a time that is not 1 to 10 digits",
      reason: "the package reads the number at the beginning of 123abc",
      refuses: ({ headers }) =>
        !/^[0-9]{1,10}$/.test(headers.get("webhook-timestamp") ?? ""),
    },
    {
      name: "a list that is not version,signature with single spaces",
      reason: "the specification's form; the package drops what is too much",
      refuses: (delivery) =>
        value(delivery).split(" ").some((entry) =>
          entry.split(",").length !== 2 || /^,|,$|\s/.test(entry)
        ),
    },
    {
      name: "more than 8 signatures",
      reason: "nobody rolls that many secrets; only the first 8 are looked at",
      refuses: (delivery) =>
        !value(delivery).split(" ").filter((entry) => entry.startsWith("v1,"))
          .slice(0, MAX_SIGNATURES).map((entry) => entry.slice("v1,".length))
          .some(isValid(delivery)),
    },
    overLong(),
  ],
};

/*
 * And what the packages refuse and the receiver lets pass; the reference is
 * told such a delivery in a form that its package takes (reference.ts):
 *   - upper-case hex: bytes are compared, not texts
 *   - an empty body, which Stripe's package refuses: it is signed all the same,
 *     and answered with 400
 *   - a body that is not UTF-8, which the packages decode before they verify:
 *     the exact bytes are verified here, and answered with 400
 */

function faultySecret(): Strictness {
  return {
    name: "a secret that is empty or has white space at its ends",
    reason: "anybody can sign with an empty one; white space is a bad copy",
    refuses: ({ secrets }) => secrets.some(isFaulty),
  };
}

function ofBothProviders(): Strictness {
  return {
    name: "headers of two providers",
    reason: "a provider signs for itself",
    refuses: ({ headers, scheme }) => {
      // Where one has Standard Webhooks, the other one has the plain scheme.
      const other = scheme === "hmac-sha256-hex"
        ? HEADERS.stripe
        : HEADERS["hmac-sha256-hex"];
      return headers.has(HEADERS[scheme]) && headers.has(other);
    },
  };
}

function overLong(): Strictness {
  return {
    name: "a header over 4 kB",
    reason: "no more is parsed of what nobody has proved",
    refuses: (delivery) => value(delivery).length > MAX_HEADER_LENGTH,
  };
}

function value({ headers, scheme }: VerifierCase): string {
  return headers.get(HEADERS[scheme]) ?? "";
}

function id(headers: Headers): string {
  return headers.get("webhook-id") ?? "";
}

function times(delivery: VerifierCase): string[] {
  return stripeEntries(delivery, "t");
}

function stripeMacs(delivery: VerifierCase): string[] {
  return stripeEntries(delivery, "v1");
}

/** All behind the first `=` of the entries of a key. */
function stripeEntries(delivery: VerifierCase, key: string): string[] {
  return value(delivery).split(",")
    .filter((entry) => entry === key || entry.startsWith(`${key}=`))
    .map((entry) => entry.slice(key.length + 1));
}

/** Whether one of the secrets makes it of this body, by Node's HMAC. */
function isValid(delivery: VerifierCase): (mac: string) => boolean {
  const { scheme, secrets, body, headers } = delivery;
  const isStripe = scheme === "stripe";
  const time = isStripe
    ? times(delivery)[0] ?? ""
    : headers.get("webhook-timestamp") ?? "";
  const valid = secrets.map((secret) =>
    macOf(scheme, body, { secret, time, id: id(headers) })
  );
  return (mac) => valid.includes(isStripe ? mac.toLowerCase() : mac);
}
