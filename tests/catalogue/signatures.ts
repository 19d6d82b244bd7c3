/**
 * Rows 1 to 20 and 70: signatures that are missing, malformed, old or made with
 * a secret that no provider has. More of each kind are in the unit tests of
 * signatures and settings.
 */
import { assert } from "@std/assert";
import type { RawRequest } from "./raw_request.ts";
import { startReceiver } from "../support/functions.ts";
import {
  APPLIED,
  assertDiscreet,
  deliver,
  outcome,
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

/** Checks one of the three schemes after the other. */
const toEach = (sent: Sent): Sent[] => ENDPOINTS.map((to) => ({ to, ...sent }));

type Value = (parts: SignatureParts) => string;

const HEX_SECRET = SECRETS["hmac-sha256-hex"];
const MALFORMED = outcome(401, "signature_malformed", "nothing");
const MISMATCH = outcome(401, "signature_mismatch", "nothing");
const MISSING = outcome(401, "signature_missing", "nothing");
const MISCONFIGURED = outcome(500, "provider_misconfigured", "nothing");
const TIMED = ["stripe", "standard"] as const;

/** A MAC over something else, in hex and in base64. */
const OTHER_HEX = "0123456789abcdef".repeat(4);
const OTHER_BASE64 = "ASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4mrze8=";
const otherOf = ({ scheme }: SignatureParts) =>
  scheme === "standard-webhooks" ? OTHER_BASE64 : OTHER_HEX;

/** To one endpoint, each signature header; MAC and TIME stand for its own. */
function withValues(to: EndpointName, values: readonly string[]) {
  return values.map((text): Sent => ({
    to,
    value: ({ time, mac }) =>
      (to === "stripe" && !/\bt=/.test(text) ? `t=${time},` : "") +
      text.replaceAll("TIME", time).replace("MAC", mac),
  }));
}

/** To each endpoint, each change of its MAC. */
function withMacs(...changes: readonly ((mac: string) => string)[]): Sent[] {
  return changes.flatMap((change) =>
    toEach({ value: (parts) => valueOf(parts, [change(parts.mac)]) })
  );
}

/** So many other MACs before the right one. */
const behindOthers = (count: number): Value => (parts) =>
  valueOf(parts, [...Array(count).fill(otherOf(parts)), parts.mac]);

/** Padded to a length with an entry of another version. */
const padded = (length: number): Value => (parts) => {
  const entry = { "stripe": ",v0=", "standard-webhooks": " v0," };
  const { scheme } = parts;
  return (valueOf(parts) + (scheme === "hmac-sha256-hex" ? "" : entry[scheme]))
    .padEnd(length, "0");
};

/** White space at the ends is no part of a header's value. */
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
      ...toEach({ headers: ({ mac }) => ({ authorization: `Bearer ${mac}` }) }),
      ...toEach({ headers: ({ mac }) => ({ "x-signature": mac }) }),
      {
        to: "standard",
        headers: ({ id, time }) => ({
          "webhook-id": id,
          "webhook-timestamp": time,
        }),
      },
    ],
  },
  "2: an empty or blank header": {
    ...MALFORMED,
    sent: ["", " \t "].flatMap((value) => toEach({ value: () => value })),
  },
  '3: the secret unset, "" or whsec_': misconfigured([
    "is not set",
    undefined,
    "",
  ]),
  "4: a secret with white space at its ends": misconfigured(
    ["white space", ` ${SECRETS.stripe}`, `${HEX_SECRET}\n`],
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
    sent: [
      { to: "stripe" },
      { to: "hex" },
      { to: "hex", through: "gateway" },
    ].map((way) => ({
      ...way as Sent,
      value: (parts) => valueOf(parts, [parts.mac.toUpperCase()]),
    })),
  },
  "10: only v0= or an unknown scheme": {
    ...MALFORMED,
    sent: ["v0", "V1", "v2"].flatMap((version) => [
      ...withValues("stripe", [`${version}=MAC`]),
      ...withValues("hex", [`${version}=MAC`]),
      ...withValues("standard", [`${version},MAC`]),
    ]),
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
      { to, value: behindOthers(8) },
      { to, value: behindOthers(7), ...APPLIED },
    ]),
  },
  "13: a signature header over 4 kB; the server refuses far larger ones": {
    ...MALFORMED,
    sent: [
      ...toEach({ value: padded(4_097) }),
      ...toEach({ value: padded(16_000) }),
      ...toEach({
        value: padded(1_000_000),
        raw: (request) => request,
        status: [400, 431],
      }),
    ],
  },
  "14: the header sent twice": {
    ...MALFORMED,
    sent: [
      ...sentTwice("stripe", "provider-a-signature"),
      ...sentTwice("hex", "provider-b-signature"),
      ...["webhook-id", "webhook-timestamp", "webhook-signature"]
        .flatMap((name) => sentTwice("standard", name)),
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
  // Where time that passes could change it, with ten seconds for a slow machine.
  // Unit tests hold the exact limits.
  "17: 301 s old; 290 s passes": {
    ...outcome(401, "signature_too_old", "nothing"),
    sent: TIMED.flatMap((to) => [
      { to, age: 301 },
      { to, age: 290, ...APPLIED },
    ]),
  },
  "18: 310 s ahead; 299 s passes": {
    ...outcome(401, "signature_too_far_ahead", "nothing"),
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
      ["fewer than 16 characters", "whsec_123456789", `${HEX_SECRET},Zq81`],
      ["share a secret", SECRETS.stripe, `${HEX_SECRET},${SECRETS.stripe}`],
    ),
};

/** HTTP joins two lines of a header with a comma and a space. */
function sentTwice(to: EndpointName, name: string): Sent[] {
  const raw = ({ lines = [], ...request }: RawRequest): RawRequest => ({
    ...request,
    lines: [...lines, ...lines.filter((line) => line.startsWith(`${name}: `))],
  });
  return to === "standard"
    ? [{ to, raw }]
    : [{ to, raw }, { to, raw, through: "gateway" }];
}

/**
 * Receivers with such secrets of providers A and B; undefined is not set. Each
 * says at its start what is wrong with them, by their names, and refuses whatever
 * is signed, with them or with nothing.
 */
function misconfigured(
  ...cases: [says: string, a: string | undefined, b: string | undefined][]
): Row {
  return {
    check: async (stage) => {
      for (const [says, ...secrets] of cases) {
        await checkMisconfigured(stage, secrets, says);
      }
    },
  };
}

async function checkMisconfigured(
  stage: Stage,
  secrets: readonly (string | undefined)[],
  says: string,
): Promise<void> {
  const names = ["PROVIDER_A_SIGNING_SECRET", "PROVIDER_B_SIGNING_SECRET"];
  await using receiver = await startReceiver({
    env: {
      // Another stack's, for which the local secrets are too well known.
      SUPABASE_SECRET_KEYS: '{"default":"sb_secret_of_a_project"}',
      ...Object.fromEntries(names.map((name, i) => [name, secrets[i]])),
    },
  });
  const schemes = ["stripe", "hmac-sha256-hex"] as const;
  for (const [i, scheme] of schemes.entries()) {
    const atStart = await receiver.logged((line) =>
      line.provider === "ab"[i] && line.level === "warn"
    );
    for (const text of [names[i]!, says]) {
      assert(String(atStart.error).includes(text), `${atStart.error}`);
    }
    const configured = secrets[i] ?? "";
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
