import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  describeFailedBody,
  recordFailure,
} from "../../../supabase/functions/_shared/billing/record_failure.ts";
import { codeOf, fakeDatabase, refusal } from "./fixtures.ts";

type Body = string | number[] | Uint8Array;

function bytes(body: Body): Uint8Array<ArrayBuffer> {
  return typeof body === "string"
    ? new TextEncoder().encode(body)
    : new Uint8Array(body);
}

/** Bodies with a usable id, and without one. */
const BODIES: Record<string, Body[]> = {
  evt_1: [
    '{ "id":"evt_1", "type":"invoice.paid", "n":1e400 }',
    '{"id":"evt_1","type":"a\\n","a":"\\u0000\\ud800"}',
  ],
  "sha256:": [
    ...["", '{"id":"evt_1"', '[{"id":"evt_1"}]', '"evt_1"', "1", "null", "{}"],
    ...['{"id":1}', '{"id":null}', '{"id":{"id":"evt_1"}}', '{"id":" "}'],
    ...[`{"id":"${"a".repeat(256)}"}`, '{"id":"evt_1\\nforged"}'],
    ...['{"id":"evt_1\\u0000"}', '{"id":"evt_\\ud800"}', "\n\t \u007f"],
    ...['{"__proto__":{"id":"evt_1"}}', "[".repeat(100_000), "Grüße \u{1f600}"],
    // What Postgres cannot hold as text.
    ...[[0xff], [0x00], [0xed, 0xa0, 0x80], [0x7b, 0xff, 0x7d]],
    bytes('{"id":"evt_1","a":"x\0"}'),
    // Around the chunks of the conversion.
    ...[32_767, 32_768, 32_769, 100_001]
      .map((length) => new Uint8Array(length).fill(0xfe).fill(1, 32_768)),
  ],
};
Deno.test("describeFailedBody() files a body under its id or hash, and loses no byte", async () => {
  const bodies = Object.entries(BODIES)
    .flatMap(([id, bodies]) => bodies.map((body) => [id, body] as const));
  for (const [id, body] of bodies) {
    const sent = bytes(body);
    const name = String(body).slice(0, 80);
    const hash = createHash("sha256").update(sent).digest("hex");
    const failed = await describeFailedBody(sent.slice());
    assertEquals(failed.bodyHash, hash, name);
    assertEquals(failed.eventId, id === "evt_1" ? id : id + hash, name);
    const isText = typeof body === "string";
    assertEquals(failed.encoding, isText ? "text" : "base64", name);
    const kept = Buffer.from(failed.body, isText ? "utf-8" : "base64");
    assertEquals(Buffer.compare(kept, sent), 0, name);
  }
  const paid = await describeFailedBody(bytes('{"type":"invoice.paid"}'));
  assertEquals(paid.event.type, "invoice.paid");
  const marked = await describeFailedBody(bytes("\ufeff{}"));
  assertEquals([marked.body, marked.encoding], ["{}", "text"]);
});

/** Records a failure in a database that answers so. */
async function record(answer: Response) {
  const { database, calls } = fakeDatabase(() => answer);
  const error = new DeliveryError("event_invalid", "id: must not be blank");
  const failed = await describeFailedBody(bytes(FAILED));
  const result = recordFailure(error, { provider: "a", failed, database });
  return { result, calls };
}
const FAILED =
  '{"id":"evt_1","type":"invoice.payment_failed","data":{"object":{"customer":"cus_1"}}}';

Deno.test("recordFailure() files the body with the reason, unless it was applied before", async () => {
  for (const answer of [true, false]) {
    const { result, calls } = await record(Response.json(answer));
    assertEquals(await result, answer);
    assertEquals<unknown>(calls, [["record_failed_event", {
      p_provider: "a",
      p_event_id: "evt_1",
      p_type: "invoice.payment_failed",
      p_kind: "payment_failed",
      p_customer_id: "cus_1",
      p_body: FAILED,
      p_body_encoding: "text",
      p_error_code: "event_invalid",
      p_error: "id: must not be blank",
    }]]);
  }
  const refused = await record(refusal("42501"));
  assertEquals(await codeOf(refused.result), "deployment_fault");
  for (const body of ['"true"', "1", "<html>"]) {
    const { result } = await record(new Response(body));
    assertEquals(await codeOf(result), "database_unavailable");
  }
});
