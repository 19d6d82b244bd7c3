/**
 * Deliveries for a verifier: signed like a provider's, then changed.
 *
 * @module
 */
import { macOf, type TestedScheme } from "../support/sign.ts";
import type { Dice } from "../support/random.ts";
import { mutateText } from "./mutate_text.ts";
import { makeSecrets, signingSecret } from "./secrets.ts";

/** The receiver's clock, in Unix seconds. */
export const NOW = 1_800_000_000;

/** A delivery, and the configuration that it meets. */
export interface VerifierCase {
  readonly scheme: TestedScheme;
  /** Of the provider under test. */
  readonly secrets: readonly string[];
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** The header that carries the signature, by scheme. */
export const HEADERS = {
  "stripe": "provider-a-signature",
  "hmac-sha256-hex": "provider-b-signature",
  "standard-webhooks": "webhook-signature",
} as const;

const TEXTS: [string, ...string[]] = [
  '{"id":"evt_1","type":"customer.subscription.deleted"}',
  '{ "id": "evt_2",\r\n "note": "\u00e9\u{1f600}" }\n',
  "\ufeff{}",
  "0",
  "\0",
  "",
];

interface Parts {
  readonly time: string;
  readonly id: string;
  readonly macs: string[];
}

/** Makes a case: most deliveries are signed well, and then changed or not. */
export function makeCase(
  scheme: TestedScheme,
  dice: Dice,
): VerifierCase {
  const secrets = makeSecrets(scheme, dice);
  const body = makeBody(dice);
  const seconds = String(NOW + makeAge(dice));
  // What is no time, and signed all the same.
  const time = dice.once(16) ? makeTime(seconds, dice) : seconds;
  const id = dice.once(8) ? makeId(dice) : "msg_2Lh9KRb0pzN4LePd3XiA4v12Axj";

  const secret = signingSecret(secrets, { scheme, dice });
  const mac = macOf(scheme, body, { secret, time, id });
  const parts = { time, id, macs: makeMacs(mac, { scheme, dice }) };
  const headers = makeHeaders(scheme, parts, dice);
  // A bit of the body, after it was signed.
  if (body.length > 0 && dice.once(16)) {
    const at = dice.roll(body.length);
    body[at] = body[at]! ^ (1 << dice.roll(8));
  }
  return { scheme, secrets, headers, body };
}

function makeBody(dice: Dice): Uint8Array<ArrayBuffer> {
  if (dice.once(6)) {
    const length = dice.roll(40);
    return Uint8Array.from({ length }, () => dice.roll(256));
  }
  return new TextEncoder().encode(dice.pick(TEXTS));
}

/** Seconds from now: near, at the limits, or far. */
function makeAge(dice: Dice): number {
  if (dice.once(4)) return dice.pick([299, 300, 301, -299, -300, -301]);
  if (dice.once(12)) return dice.pick([-NOW, -86_400, 3_600, 315_360_000]);
  return dice.roll(598) - 299;
}

function makeId(dice: Dice): string {
  return dice.pick([
    "msg.1",
    `msg_1.${NOW}`,
    "a b",
    "a,b",
    "caf\u00e9",
    "i".repeat(255),
    "i".repeat(256),
    "1",
    "",
  ]);
}

/** One MAC, or several: other ones before and behind it, or it alone. */
function makeMacs(
  mac: string,
  { scheme, dice }: { scheme: TestedScheme; dice: Dice },
): string[] {
  const other = scheme === "standard-webhooks"
    ? `${"A".repeat(43)}=`
    : "0".repeat(64);
  switch (dice.roll(10)) {
    case 0:
      return [other, mac];
    case 1:
      return [mac, other];
    case 2:
      return [...Array<string>(dice.roll(12)).fill(other), mac];
    case 3:
      // The first characters are right, or the last.
      return [mac.slice(0, 32) + other.slice(32)];
    case 4:
      return [other.slice(0, 32) + mac.slice(32)];
    case 5:
      return dice.once(4) ? [] : [mutateText(mac, dice)];
    default:
      return [mac];
  }
}

function makeHeaders(
  scheme: TestedScheme,
  parts: Parts,
  dice: Dice,
): Headers {
  const header = HEADERS[scheme];
  const values = new Map([[header as string, makeValue(scheme, parts, dice)]]);
  if (scheme === "standard-webhooks") {
    values.set("webhook-id", parts.id);
    values.set(
      "webhook-timestamp",
      dice.once(8) ? makeTime(parts.time, dice) : parts.time,
    );
  }
  for (const [name, value] of values) {
    if (dice.once(8)) values.set(name, mutateText(value, dice));
  }
  if (dice.once(25)) values.delete(header);
  if (dice.once(40)) values.delete("webhook-id");
  if (dice.once(40)) {
    const others = Object.values(HEADERS).filter((name) => name !== header);
    values.set(others[dice.roll(others.length)] ?? header, "0".repeat(64));
  }
  return new Headers([...values]);
}

function makeValue(
  scheme: TestedScheme,
  { time, macs }: Parts,
  dice: Dice,
): string {
  if (scheme === "hmac-sha256-hex") {
    const [mac = ""] = macs;
    return dice.once(10) ? changedMac(mac, dice) : mac;
  }
  const isStripe = scheme === "stripe";
  const version = dice.once(12) ? dice.pick(["v0", "v2", "V1", "v1a"]) : "v1";
  const between = isStripe ? "=" : ",";
  const entries = macs.map((mac) =>
    version + between + (dice.once(10) ? changedMac(mac, dice) : mac)
  );
  if (isStripe) {
    const at = dice.once(10) ? entries.length : 0;
    const shown = dice.once(8) ? makeTime(time, dice) : time;
    entries.splice(at, 0, `t=${shown}`);
    if (dice.once(12)) {
      const second = `t=${dice.pick([time, String(NOW), "1", ""])}`;
      entries.splice(dice.roll(entries.length + 1), 0, second);
    }
  }
  if (dice.once(15)) {
    const strange = dice.pick(["", "v1", "x", "=", "v0=", "t", " ", "v1,"]);
    entries.splice(dice.roll(entries.length + 1), 0, strange);
  }
  const separator = dice.once(20)
    ? dice.pick([", ", " ,", "  ", ";", "\t"])
    : isStripe
    ? ","
    : " ";
  const value = entries.join(separator);
  return dice.once(25)
    ? `${value}${isStripe ? ",v0=" : " v0,"}`.padEnd(
      dice.pick([4_096, 4_097, 6_000]),
      "0",
    )
    : value;
}

function changedMac(mac: string, dice: Dice): string {
  return dice.pick([
    mac.toUpperCase(),
    `${mac}\u00a0`,
    `${mac}=`,
    `${mac}=00`,
    `${mac},00`,
    `${mac}0`,
    mac.replace(/=$/, ""),
    // The same bytes in base64: the last bits before the padding do not count.
    mac.replace(
      /.(?==$)/,
      (character) => String.fromCharCode(character.charCodeAt(0) + 1),
    ),
    ` ${mac}`,
  ]);
}

function makeTime(time: string, dice: Dice): string {
  return dice.pick([
    `${time}abc`,
    `${time}.9`,
    `${time}e3`,
    `${time}=1`,
    `+${time}`,
    `0${time}`,
    `${time}000`,
    `-${time}`,
    `0x${Number(time).toString(16)}`,
    "",
    String(Number(time) + 1),
  ]);
}
