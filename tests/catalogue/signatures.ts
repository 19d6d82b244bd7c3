/**
 * Rows 1 to 20 and 70: signatures that are missing, malformed, old or made with a secret
 * that no provider has. Unit tests have more of each kind.
 */
import { assert } from "@std/assert";
import type { RawRequest } from "./raw_request.ts";
import { startReceiver } from "../support/functions.ts";
import {
  APPLIED,
  assertDiscreet,
  deliver,
  refused,
  type Row,
  type Rows,
  type Sent,
} from "./deliver.ts";
import {
  type EndpointName,
  endpointOf,
  ENDPOINTS,
  SECRETS,
  type SignatureParts,
  type Stage,
  unixNow,
  valueOf,
} from "./stage.ts";

const toEach = (sent: Sent): Sent[] => ENDPOINTS.map((to) => ({ to, ...sent }));

type Value = (parts: SignatureParts) => string;

const HEX_SECRET = SECRETS["hmac-sha256-hex"];
const MALFORMED = refused(401, "signature_malformed");
const MISMATCH = refused(401, "signature_mismatch");
const MISSING = refused(401, "signature_missing");
const MISCONFIGURED = refused(500, "provider_misconfigured");
const TIMED = ["stripe", "standard"] as const;

const OTHER_HEX = "0123456789abcdef".repeat(4);
const OTHER_BASE64 = "ASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4mrze8=";
const otherOf = ({ scheme }: SignatureParts) =>
  scheme === "standard-webhooks" ? OTHER_BASE64 : OTHER_HEX;

/** Sends each signature header to an endpoint; MAC and TIME stand for the right ones. */
function withValues(to: EndpointName, values: readonly string[]) {
  return values.map((text): Sent => ({
    to,
    value: ({ time, mac }) =>
      (to === "stripe" && !/\bt=/.test(text) ? `t=${time},` : "") +
      text.replaceAll("TIME", time).replace("MAC", mac),
  }));
}

function withMacs(...changes: readonly ((mac: string) => string)[]): Sent[] {
  return changes.flatMap((change) =>
    toEach({ value: (parts) => valueOf(parts, [change(parts.mac)]) })
  );
}

const behindOthers = (count: number): Value => (parts) =>
  valueOf(parts, [...Array(count).fill(otherOf(parts)), parts.mac]);

const padded = (length: number): Value => (parts) => {
  const entry = { "stripe": ",v0=", "standard-webhooks": " v0," };
  const { scheme } = parts;
  return (valueOf(parts) + (scheme === "hmac-sha256-hex" ? "" : entry[scheme]))
    .padEnd(length, "0");
};

/** Only Stripe's time may have white space: it is inside its header's value. */
const signedAt = (times: readonly string[]): Sent[] =>
  TIMED.flatMap((to) =>
    times.filter((time) => to === "stripe" || time.trim() === time)
      .map((time) => ({ to, time }))
  );

export const SIGNATURES: Rows = {
  "1: no signature header": {
    ...MISSING,
    sent: [
      ...toEach({ headers: () => ({}) }),
      { headers: ({ mac }) => ({ authorization: `Bearer ${mac}` }) },
    ],
  },
  "2: an empty or blank header": {
    ...MALFORMED,
    sent: ["", " \t "].flatMap((value) => toEach({ value: () => value })),
  },
  '3: the secret unset, "" or whsec_': misconfigured("is not set"),
  "4: a secret with white space at its ends": misconfigured(
    "white space",
    ` ${SECRETS.stripe}`,
    `${HEX_SECRET}\n`,
  ),
  "5: v1= empty, or a truncated MAC": {
    ...MALFORMED,
    sent: withMacs(() => "", (mac) => mac.slice(0, 43)),
  },
  "6: 63 or 65 hex characters, an extra byte": {
    ...MALFORMED,
    sent: [
      ...withMacs((mac) => mac.slice(1), (mac) => `${mac}0`),
      { to: "standard", value: ({ mac }) => `v1,${btoa(`${atob(mac)}\0`)}` },
    ],
  },
  "7: v1 without =": {
    ...MALFORMED,
    sent: [
      ...withValues("stripe", ["v1"]),
      ...withValues("standard", ["v1MAC"]),
    ],
  },
  "8: a MAC that is not hex / not base64": {
    ...MALFORMED,
    sent: withMacs(
      () => "\u00ff".repeat(64),
      (mac) => `${mac.slice(0, 42)}-=`,
    ),
  },
  "9: upper-case hex": {
    ...APPLIED,
    sent: (["stripe", "hex"] as const).map((to) => ({
      to,
      value: (parts) => valueOf(parts, [parts.mac.toUpperCase()]),
    })),
  },
  "10: only v0= or an unknown scheme": {
    ...MALFORMED,
    sent: [
      ...withValues("stripe", ["v0=MAC", "V1=MAC"]),
      ...withValues("standard", ["v0,MAC", "v2,MAC"]),
    ],
  },
  "11: two MACs, one valid": {
    ...APPLIED,
    sent: TIMED.flatMap((to): Sent[] => [
      { to, value: (parts) => valueOf(parts, [parts.mac, otherOf(parts)]) },
      { to, value: behindOthers(1) },
    ]),
  },
  "12: 60 v1 entries, the last valid; at most 8 are looked at": {
    ...MISMATCH,
    sent: TIMED.flatMap((to): Sent[] => [
      { to, value: behindOthers(59) },
      { to, value: behindOthers(7), ...APPLIED },
    ]),
  },
  "13: a signature header over 4 kB; the server refuses far larger ones": {
    ...MALFORMED,
    sent: [
      ...toEach({ value: padded(4_097) }),
      {
        value: padded(1_000_000),
        raw: (request) => request,
        status: [400, 431],
      },
    ],
  },
  "14: the header sent twice": {
    ...MALFORMED,
    sent: [
      sentTwice("stripe", "provider-a-signature"),
      { ...sentTwice("hex", "provider-b-signature"), through: "gateway" },
      sentTwice("standard", "webhook-id"),
      sentTwice("standard", "webhook-timestamp"),
      sentTwice("standard", "webhook-signature"),
    ],
  },
  "15: two t=": {
    ...MALFORMED,
    sent: withValues("stripe", [
      "t=TIME,t=TIME,v1=MAC",
      "t=TIME,v1=MAC,t=1",
    ]),
  },
  "16: t= 123abc, -1, 1e9, 0x1, ' 1', 1.5, empty": {
    ...MALFORMED,
    sent: signedAt(["123abc", "-1", "1e9", "0x1", " 1", "1.5", ""]),
  },
  "17: 301 s old; 290 s passes": {
    ...refused(401, "signature_too_old"),
    sent: TIMED.flatMap((to) => [
      { to, age: 301 },
      { to, age: 290, ...APPLIED },
    ]),
  },
  "18: 310 s ahead; 299 s passes": {
    ...refused(401, "signature_too_far_ahead"),
    sent: TIMED.flatMap((to) => [
      { to, age: -310 },
      { to, age: -299, ...APPLIED },
    ]),
  },
  "19: t in milliseconds, or 40 digits": {
    ...MALFORMED,
    sent: signedAt([`${Date.now()}`, `${"0".repeat(30)}${unixNow()}`]),
  },
  "20: a webhook-id with a dot": {
    ...MALFORMED,
    sent: [{ to: "standard", id: `msg_1.${unixNow()}` }],
  },
  "70: a short secret, a part of a list, a placeholder, the local stack's, one for two":
    misconfigured(
      "fewer than 16 characters",
      "whsec_123456789",
      `${HEX_SECRET},Zq81`,
    ),
};

/** HTTP joins two lines of a header with a comma and a space. */
function sentTwice(to: EndpointName, name: string): Sent {
  return {
    to,
    raw: ({ lines = [], ...request }: RawRequest): RawRequest => {
      const again = lines.filter((line) => line.startsWith(`${name}: `));
      return { ...request, lines: [...lines, ...again] };
    },
  };
}

/**
 * A receiver with these secrets of the providers; undefined is not set. It says at its
 * start what is wrong with them, by their names, and refuses whatever is signed, with
 * them or with nothing.
 */
function misconfigured(says: string, secretA?: string, secretB?: string): Row {
  return {
    check: (stage) => checkMisconfigured(stage, says, [secretA, secretB]),
  };
}

async function checkMisconfigured(
  stage: Stage,
  says: string,
  [secretA, secretB]: readonly (string | undefined)[],
): Promise<void> {
  await using receiver = await startReceiver({
    env: {
      // A project's key: outside of the local stack, its secrets are too well known.
      SUPABASE_SECRET_KEYS: '{"default":"sb_secret_of_a_project"}',
      PROVIDER_A_SIGNING_SECRET: secretA,
      PROVIDER_B_SIGNING_SECRET: secretB,
    },
  });
  for (
    const [provider, scheme, configured = ""] of [
      ["a", "stripe", secretA],
      ["b", "hmac-sha256-hex", secretB],
    ] as const
  ) {
    const atStart = await receiver.logged((line) =>
      line.provider === provider && line.level === "warn"
    );
    const name = `PROVIDER_${provider.toUpperCase()}_SIGNING_SECRET`;
    for (const text of [name, says]) {
      assert(String(atStart.error).includes(text), `${atStart.error}`);
    }

    const parts = [configured.trim(), ...configured.split(","), ""];
    for (const secret of new Set([configured, ...parts])) {
      const to = endpointOf(receiver, scheme, secret);
      await deliver(stage, { to, ...MISCONFIGURED });
      const isTelling = secret.trim().length > 6;
      assert(!isTelling || !receiver.output().includes(secret), "repeated");
    }
  }
  assertDiscreet(receiver.output());
}
