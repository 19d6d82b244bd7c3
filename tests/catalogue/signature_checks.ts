/**
 * Deliveries with a signature that is not as it should be, in any scheme.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { answered, headerLines, rawRequest } from "../support/raw_request.ts";
import { post } from "../support/send.ts";
import { rowCounts } from "../support/tables.ts";
import { creation } from "./events.ts";
import { expectApplied, expectRefused, type Refusal } from "./outcome.ts";
import {
  headersOf,
  signatureOf,
  type SignatureParts,
  unixNow,
} from "./signature.ts";
import type { Endpoint, Stage } from "./stage.ts";

export const MALFORMED = { status: 401, code: "signature_malformed" };
export const MISMATCH = { status: 401, code: "signature_mismatch" };
export const MISSING = { status: 401, code: "signature_missing" };

/** A MAC over something else. */
export const OTHER_HEX = "0123456789abcdef".repeat(4);
const OTHER_BASE64 = "ASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4mrze8=";

/** Delivers a creation with those headers, which is refused. */
export async function refused(
  stage: Stage,
  endpoint: Endpoint,
  { headers, is, body = JSON.stringify(creation()) }: {
    headers: (parts: SignatureParts) => HeadersInit;
    is: Refusal;
    body?: string;
  },
): Promise<void> {
  const { receiver } = endpoint;
  await expectRefused(stage, {
    ...is,
    receiver,
    send: () =>
      post(receiver.url, {
        headers: headers(signatureOf(endpoint, body)),
        body,
      }),
  });
}

/** Delivers a creation with that signature header, which is refused. */
export async function refusedHeader(
  stage: Stage,
  endpoint: Endpoint,
  { value, is = MALFORMED }: {
    value: (parts: SignatureParts) => string;
    is?: Refusal;
  },
): Promise<void> {
  const headers = (parts: SignatureParts) =>
    headersOf(endpoint, parts, value(parts));
  await refused(stage, endpoint, { headers, is });
}

/** Delivers a creation with that signature header, which is applied. */
export async function appliedHeader(
  stage: Stage,
  endpoint: Endpoint,
  value: (parts: SignatureParts) => string,
  url = endpoint.receiver.url,
): Promise<void> {
  const { receiver } = endpoint;
  const event = creation();
  const body = JSON.stringify(event);
  const parts = signatureOf(endpoint, body);
  const headers = headersOf(endpoint, parts, value(parts));
  await expectApplied(stage, {
    receiver,
    event,
    send: () => post(url, { headers, body }),
  });
}

/** Returns a header like the endpoint's, with these MACs beside the time. */
export function listed(
  { scheme }: Endpoint,
  { time }: SignatureParts,
  macs: string[],
) {
  return scheme === "stripe"
    ? [`t=${time}`, ...macs.map((mac) => `v1=${mac}`)].join(",")
    : macs.map((mac) => `v1,${mac}`).join(" ");
}

export function otherMac({ scheme }: Endpoint): string {
  return scheme === "standard-webhooks" ? OTHER_BASE64 : OTHER_HEX;
}

/** Delivers creations that are signed with these times, which are refused. */
export async function refusedTimes(
  stage: Stage,
  times: string[],
): Promise<void> {
  const body = JSON.stringify(creation());
  for (const endpoint of [stage.stripe, stage.standard]) {
    for (const time of times) {
      // White space at the ends is no part of a header's value.
      if (endpoint === stage.standard && time.trim() !== time) continue;
      const parts = signatureOf(endpoint, body, { time });
      await refused(stage, endpoint, {
        headers: () => headersOf(endpoint, parts),
        body,
        is: MALFORMED,
      });
    }
  }
}

/**
 * A signature is refused at this distance from now, and accepted two seconds
 * nearer.
 */
export async function heldTolerance(
  stage: Stage,
  { seconds, code }: { seconds: number; code: string },
): Promise<void> {
  for (const endpoint of [stage.stripe, stage.standard]) {
    const { receiver } = endpoint;
    const body = JSON.stringify(creation());
    await withinASecond(async (now) => {
      const time = String(now + seconds);
      const parts = signatureOf(endpoint, body, { time });
      await refused(stage, endpoint, {
        headers: () => headersOf(endpoint, parts),
        body,
        is: { status: 401, code },
      });
    });
    const event = creation();
    const nearer = JSON.stringify(event);
    const time = String(unixNow() + seconds - 2 * Math.sign(seconds));
    const parts = signatureOf(endpoint, nearer, { time });
    await expectApplied(stage, {
      receiver,
      event,
      send: () =>
        post(receiver.url, {
          headers: headersOf(endpoint, parts),
          body: nearer,
        }),
    });
  }
}

/** Returns the header, padded to a length with an entry that is no MAC. */
export function padded(
  endpoint: Endpoint,
  parts: SignatureParts,
  length: number,
): string {
  const separator = { "stripe": ",v0=", "standard-webhooks": " v0," };
  const value = headersOf(endpoint, parts)[endpoint.header] ?? "";
  return endpoint.scheme === "hmac-sha256-hex"
    ? value.padEnd(length, "0")
    : (value + separator[endpoint.scheme]).padEnd(length, "0");
}

/**
 * Sends a header that is longer than the server accepts, so the receiver never
 * sees it.
 */
export async function refusedByServer(
  { sql }: Stage,
  endpoint: Endpoint,
): Promise<void> {
  const { receiver, header } = endpoint;
  const before = await rowCounts(sql);
  const body = JSON.stringify(creation());
  const value = padded(endpoint, signatureOf(endpoint, body), 1_000_000);
  const answer = await rawRequest(receiver.url, {
    line: `POST ${new URL(receiver.url).pathname}`,
    headers: [`${header}: ${value}`, `Content-Length: ${body.length}`],
    body,
  });
  assert([400, 431].includes(answer?.status ?? 0), `${answer?.status}`);
  assertEquals(answer?.body, "");
  assertEquals(await rowCounts(sql), before);
}

/**
 * Sends one header as two lines, in both orders. HTTP joins them with a comma
 * and a space.
 *
 * @param options.url Where to; by default to the receiver itself.
 */
export async function refusedTwice(
  stage: Stage,
  { receiver }: Endpoint,
  { body, headers, name, other, url = receiver.url }: {
    body: string;
    headers: Record<string, string>;
    name: string;
    other: string;
    url?: string;
  },
): Promise<void> {
  const lines = headerLines(headers);
  const more = `${name}: ${other}`;
  for (const twice of [[...lines, more], [more, ...lines]]) {
    await expectRefused(stage, {
      ...MALFORMED,
      receiver,
      send: () =>
        answered(url, {
          line: `POST ${new URL(url).pathname}`,
          headers: [...twice, `Content-Length: ${body.length}`],
          body,
        }),
    });
  }
}

/**
 * Tries again if the second changed meanwhile, so that the clock has no effect.
 */
async function withinASecond(
  attempt: (now: number) => Promise<void>,
): Promise<void> {
  for (let attempts = 1;; attempts++) {
    const now = unixNow();
    try {
      return await attempt(now);
    } catch (error) {
      if (unixNow() === now || attempts === 5) throw error;
    }
  }
}
