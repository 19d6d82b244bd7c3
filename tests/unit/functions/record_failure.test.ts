import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import fc from "fast-check";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  describeFailedBody,
  type FailedBody,
  recordFailure,
} from "../../../supabase/functions/_shared/billing/record_failure.ts";

const NOTHING = {
  type: undefined,
  kind: undefined,
  subscription_id: undefined,
  customer_id: undefined,
  account_id: undefined,
  occurred_at: undefined,
};

/** Text of any code points at all, lone surrogates included. */
const anyText = fc.string({
  unit: fc.integer({ min: 0, max: 0x10ffff })
    .map((codePoint) => String.fromCodePoint(codePoint)),
});

function bytes(body: string | readonly number[]): Uint8Array<ArrayBuffer> {
  return typeof body === "string"
    ? new TextEncoder().encode(body)
    : new Uint8Array(body);
}

function sha256(body: Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

Deno.test("describeFailedBody() files an event under its id, with the text as sent", async () => {
  const text = '{ "id":"evt_1", "type":"invoice.paid", "n":1e400 }';
  assertEquals(await describeFailedBody(bytes(text)), {
    eventId: "evt_1",
    event: { ...NOTHING, type: "invoice.paid" },
    bodyHash: sha256(bytes(text)),
    body: text,
    encoding: "text",
  });
});

/** Bodies without an id that can be used. */
const WITHOUT_ID: Record<string, string | number[]> = {
  "an empty body": "",
  "malformed JSON": '{"id":"evt_1"',
  "an array": '[{"id":"evt_1"}]',
  "a string": '"evt_1"',
  "a number": "1",
  "null": "null",
  "no id": '{"type":"x"}',
  "an id that is a number": '{"id":1}',
  "an id that is null": '{"id":null}',
  "an id that is an object": '{"id":{"id":"evt_1"}}',
  "an empty id": '{"id":""}',
  "a blank id": '{"id":" "}',
  "an id that is too long": `{"id":"${"a".repeat(256)}"}`,
  "an id with a line break": '{"id":"evt_1\\nforged"}',
  "an id with a zero": '{"id":"evt_1\\u0000"}',
  "an id with a lone surrogate": '{"id":"evt_\\ud800"}',
  "an inherited id": '{"__proto__":{"id":"evt_1"}}',
  "bytes that are not UTF-8": [0x7b, 0xff, 0x7d],
};
for (const [name, body] of Object.entries(WITHOUT_ID)) {
  Deno.test(`describeFailedBody() files ${name} under the body's hash`, async () => {
    const { eventId, bodyHash } = await describeFailedBody(bytes(body));
    assertEquals(bodyHash, sha256(bytes(body)));
    assertEquals(eventId, `sha256:${bodyHash}`);
  });
}

Deno.test("describeFailedBody() keeps no type that cannot be stored or shown", async () => {
  const types = [
    1,
    null,
    {},
    "",
    " ",
    "a\nb",
    "a\0",
    "\ud800",
    "a".repeat(256),
  ];
  for (const type of types) {
    const text = JSON.stringify({ id: "evt_1", type });
    const failed = await describeFailedBody(bytes(text));
    assertEquals(
      [failed.eventId, failed.event.type],
      ["evt_1", undefined],
      text,
    );
  }
});

Deno.test("describeFailedBody() keeps as text what is text, escapes and all", async () => {
  const texts = [
    '{"id":"evt_1","a":"\\u0000\\ud800"}',
    "[".repeat(100_000),
    "{",
    "\n\t \u007f",
    "Grüße \u{1f600}",
    "",
  ];
  for (const text of texts) {
    const { body, encoding } = await describeFailedBody(bytes(text));
    assertEquals([body, encoding], [text, "text"]);
  }
});

Deno.test("describeFailedBody() keeps as base64 what Postgres cannot hold as text", async () => {
  const bodies = [
    [0xff],
    [0x00],
    [...bytes('{"id":"evt_1","a":"x'), 0x00, ...bytes('"}')],
    [0xed, 0xa0, 0x80],
  ];
  for (const body of bodies) {
    const failed = await describeFailedBody(bytes(body));
    assertEquals(failed.encoding, "base64");
    assertEquals([...Buffer.from(failed.body, "base64")], body);
  }
});

Deno.test("describeFailedBody() loses no byte of any body", async () => {
  // Longer than one chunk of the conversion, and not a multiple of it.
  const large = new Uint8Array(100_001).fill(0xfe);
  const bodies = fc.oneof(
    fc.uint8Array(),
    anyText.map((text) => bytes(text)),
  );
  await fc.assert(
    fc.asyncProperty(bodies, async (body) => {
      const original = new Uint8Array(body);
      const failed = await describeFailedBody(original);
      const kept = failed.encoding === "base64"
        ? Buffer.from(failed.body, "base64")
        : bytes(failed.body);
      // A byte order mark in front is dropped: JSON has none.
      const isMarked = [0xef, 0xbb, 0xbf].every((b, i) => original[i] === b);
      const isDropped = failed.encoding === "text" && isMarked;
      assertEquals([...kept], [...original.subarray(isDropped ? 3 : 0)]);
      assert(!failed.body.includes("\0"));
      assertMatch(failed.bodyHash, /^[0-9a-f]{64}$/);
    }),
    { examples: [[large], [new Uint8Array(32_768).fill(0xff)]] },
  );
});

const ERROR = new DeliveryError("event_invalid", "id: must not be blank");
const FAILED: FailedBody = {
  eventId: "evt_1",
  event: {
    ...NOTHING,
    type: "invoice.payment_failed",
    kind: "payment_failed",
    customer_id: "cus_1",
  },
  bodyHash: "0".repeat(64),
  body: "{}",
  encoding: "text",
};

/** Records against a database that answers so; the calls that it got. */
async function recordWith(
  answer: () => Response,
): Promise<{ result: Promise<boolean>; calls: unknown[] }> {
  const calls: unknown[] = [];
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: (input, init) => {
      const path = new URL(String(input)).pathname;
      calls.push([path, JSON.parse(String(init?.body))]);
      return Promise.resolve(answer());
    },
  });
  const result = recordFailure(ERROR, {
    provider: "a",
    failed: FAILED,
    database,
  });
  await result.catch(() => {});
  return { result, calls };
}

Deno.test("recordFailure() files the body with the reason", async () => {
  const { result, calls } = await recordWith(() => Response.json(true));
  assertEquals(await result, true);
  const filed = {
    p_provider: "a",
    p_event_id: "evt_1",
    p_type: "invoice.payment_failed",
    p_kind: "payment_failed",
    p_customer_id: "cus_1",
    p_body: "{}",
    p_body_encoding: "text",
    p_error_code: "event_invalid",
    p_error: "id: must not be blank",
  };
  assertEquals(calls, [["/rest/v1/rpc/billing_record_failed_event", filed]]);
});

Deno.test("recordFailure() answers false if the event was applied before", async () => {
  const { result, calls } = await recordWith(() => Response.json(false));
  assertEquals(await result, false);
  assertEquals(calls.length, 1);
});

Deno.test("recordFailure() throws if the database refuses or cannot be reached", async () => {
  const answers: [Response, DeliveryError["code"]][] = [
    [
      Response.json({ code: "42501", message: "x" }, { status: 403 }),
      "deployment_fault",
    ],
    [
      Response.json({ code: "55P03", message: "x" }, { status: 500 }),
      "record_locked",
    ],
    [
      Response.json({ code: "54000", message: "x" }, { status: 500 }),
      "apply_failed",
    ],
    [new Response("<html>", { status: 502 }), "database_unavailable"],
    [new Response("<html>"), "database_unavailable"],
    [new Response("", { status: 404 }), "database_unavailable"],
    [new Response(""), "database_unavailable"],
  ];
  for (const [answer, code] of answers) {
    const { result } = await recordWith(() => answer.clone());
    const error = await assertRejects(() => result, DeliveryError);
    assertEquals(error.code, code);
  }
});
