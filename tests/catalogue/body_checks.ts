/**
 * Deliveries with a valid signature, and a body that may be anything.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { post } from "../support/send.ts";
import { hashId } from "./events.ts";
import {
  expectApplied,
  expectFiled,
  expectIgnored,
  type Refusal,
  type Send,
} from "./outcome.ts";
import { type Body, signedHeaders } from "./signature.ts";
import type { Endpoint, Stage } from "./stage.ts";

export const INVALID = { status: 422, code: "event_invalid" };

/** Returns a delivery that is signed when it is sent. */
export function signed(endpoint: Endpoint, body: Body | object): Send {
  const bytes = typeof body === "string" || body instanceof Uint8Array
    ? body
    : JSON.stringify(body);
  return () =>
    post(endpoint.receiver.url, {
      headers: signedHeaders(endpoint, bytes),
      body: bytes,
    });
}

/** Delivers as provider A, and checks that the delivery is filed. */
export async function filed(
  stage: Stage,
  body: Body | object,
  { as, ...is }: Partial<Refusal> & { as?: string } = {},
): Promise<Record<string, unknown>> {
  const { receiver } = stage.stripe;
  const text = typeof body === "string" || body instanceof Uint8Array
    ? body
    : JSON.stringify(body);
  return await expectFiled(stage, {
    ...INVALID,
    ...is,
    receiver,
    send: signed(stage.stripe, text),
    as: as ?? hashId(text),
  });
}

/** Delivers as provider A, and checks that the event is applied. */
export async function applied(
  stage: Stage,
  event: { id: string },
  { body = event, outcome }: { body?: Body | object; outcome?: string } = {},
) {
  return await expectApplied(stage, {
    receiver: stage.stripe.receiver,
    send: signed(stage.stripe, body),
    event,
    ...(outcome !== undefined && { outcome }),
  });
}

/**
 * Delivers as provider A, and checks that it is acknowledged without effect.
 */
export async function ignored(stage: Stage, body: Body | object) {
  const { receiver } = stage.stripe;
  await expectIgnored(stage, { receiver, send: signed(stage.stripe, body) });
}

/**
 * Checks for each value that the event with this value at the path is filed under
 * its ID, and that the error names the path.
 */
export async function filedWith(
  stage: Stage,
  make: () => { id: string },
  { path, values, says = dotted(path) }: {
    path: string;
    values: readonly unknown[];
    says?: string;
  },
): Promise<void> {
  for (const value of values) {
    const event = edited(make(), { [path]: value });
    const as = path === "id" ? hashId(JSON.stringify(event)) : event.id;
    const row = await filed(stage, event, { as });
    assert(String(row.error).includes(says), `${says}: ${row.error}`);
    assertEquals(row.payload, JSON.parse(JSON.stringify(event)));
    assertEquals([row.payload_encoding, row.attempts], ["json", 1]);
  }
}

/** Checks that the body is stored as this text, character by character. */
export function assertKeptAsText(
  row: Record<string, unknown>,
  text: string,
): void {
  assertEquals([row.payload_encoding, row.payload], ["text", text]);
}

/** Returns a path as errors write it: `items.data[0].price`. */
function dotted(path: string): string {
  return path.replaceAll(/\.(\d+)/g, "[$1]");
}
