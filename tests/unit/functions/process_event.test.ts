import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { applyEvents } from "../../../supabase/functions/_shared/billing/apply_events.ts";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { gather } from "../../../supabase/functions/billing-webhook/gather.ts";
import { processEvent } from "../../../supabase/functions/billing-webhook/process_event.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import {
  type VerifiedDelivery,
  verifyDelivery,
} from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { hmacHex } from "../../support/sign.ts";

const NOW = 1_793_700_000;
const SECRET = "unit-test-of-provider-b";
const DELETION = JSON.stringify({
  id: "evt_1",
  type: "customer.subscription.deleted",
  created: NOW,
  data: { object: { id: "sub_1" } },
});

async function verified(
  body: string | Uint8Array<ArrayBuffer>,
  env: Record<string, string> = {},
): Promise<VerifiedDelivery> {
  const bytes = typeof body === "string"
    ? new TextEncoder().encode(body)
    : body;
  return await verifyDelivery({
    headers: new Headers({ "provider-b-signature": hmacHex(SECRET, bytes) }),
    body: bytes,
  }, {
    providers: await readProviders({
      PROVIDER_B_SIGNING_SECRET: SECRET,
      ...env,
    }),
    nowSeconds: NOW,
    toleranceSeconds: 300,
  });
}

interface Call {
  readonly name: string | undefined;
  readonly body: Record<string, unknown>;
}

/** How each function of the database answers. */
interface Answers {
  readonly billing_apply_events?: () => Response;
  readonly billing_record_failed_event?: () => Response;
}

/** Processes a body; what was called, logged and thrown. */
async function process(
  body: string | Uint8Array<ArrayBuffer>,
  answers: Answers = {},
  instead: Partial<Parameters<typeof processEvent>[1]> = {},
  env: Record<string, string> = {},
) {
  const calls: Call[] = [];
  const lines: unknown[][] = [];
  const standard: Answers = {
    billing_apply_events: applied({ outcome: "applied" }),
    billing_record_failed_event: () => Response.json(true),
  };
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: (input, init) => {
      const name = String(input).split("/").pop();
      calls.push({ name, body: JSON.parse(String(init?.body)) });
      const answer = { ...standard, ...answers }[name as keyof Answers];
      assert(answer !== undefined, `Unexpected call of ${name}`);
      return Promise.resolve(answer());
    },
  });
  let wakes = 0;
  const clock = () => NOW * 1000;
  const result = processEvent(await verified(body, env), {
    apply: gather((events) => applyEvents(events, { database }), {
      maxTogether: 1,
      maxWaiting: 1,
      maxWaitMs: 1_000,
    }),
    database,
    unmappedSubscriptions: "fail",
    toleranceSeconds: 300,
    wakeWorker: () => wakes++,
    clock,
    ...instead,
  });
  await result.then(
    ({ level, message, fields }) => lines.push([level, message, fields]),
    () => {},
  );
  return { result, calls, lines, wakes };
}

function applied(row: Record<string, unknown>): () => Response {
  return () => Response.json([{ place: 1, ...row }]);
}

function refusal(code: string, message = "says"): () => Response {
  return () => Response.json({ code, message }, { status: 500 });
}

Deno.test("processEvent() applies a handled event in one call, under its provider", async () => {
  for (const outcome of ["applied", "duplicate", "stale"]) {
    const { result, calls } = await process(DELETION, {
      billing_apply_events: applied({ outcome }),
    });
    assertEquals(await result, {
      level: "info",
      message: "events applied",
      fields: {
        provider: "b",
        event_id: "evt_1",
        type: "customer.subscription.deleted",
        subscription_id: "sub_1",
        outcomes: { [outcome]: 1 },
      },
    });
    assertEquals(calls, [{
      name: "billing_apply_events",
      body: {
        events: [{
          provider: "b",
          event_id: "evt_1",
          type: "customer.subscription.deleted",
          place: 1,
          kind: "deletion",
          occurred_at: new Date(NOW * 1000).toISOString(),
          subscription_id: "sub_1",
          report: { customer_id: null },
        }],
      },
    }]);
  }
});

Deno.test("processEvent() lets no event choose its provider", async () => {
  const forged = { ...JSON.parse(DELETION), provider: "a" };
  const { calls: [call] } = await process(JSON.stringify(forged));
  const [event] = call?.body.events as { provider: string }[];
  assertEquals(event?.provider, "b");
});

Deno.test("processEvent() ignores other types without touching the database", async () => {
  const { result, calls, lines } = await process(
    '{"id":"evt_1","type":"payment_intent.payment_failed","data":"secret"}',
  );
  await result;
  assertEquals(calls, []);
  assertEquals(lines, [["info", "event ignored", {
    provider: "b",
    event_id: "evt_1",
    type: "payment_intent.payment_failed",
    outcomes: { ignored: 1 },
  }]]);
});

Deno.test("processEvent() ignores events of the other mode, and says so", async () => {
  const body = JSON.stringify({ ...JSON.parse(DELETION), livemode: false });
  const { result, calls, lines } = await process(body, {}, {}, {
    PROVIDER_A_MODE: "test",
    PROVIDER_B_MODE: "live",
  });
  await result;
  assertEquals(calls, []);
  assertEquals(lines, [["info", "event of the other mode ignored", {
    provider: "b",
    event_id: "evt_1",
    type: "customer.subscription.deleted",
    outcomes: { ignored: 1 },
  }]]);
  const wanted = await process(body, {}, {}, { PROVIDER_B_MODE: "test" });
  await wanted.result;
  assertEquals(wanted.calls.length, 1);
});

Deno.test("processEvent() warns of thin events: their destination loses everything", async () => {
  const { result, calls, lines } = await process(
    '{"id":"evt_1","object":"v2.core.event","type":"v1.customer.subscription.created"}',
  );
  await result;
  assertEquals(calls, []);
  const [[level, message, fields] = []] = lines;
  assertEquals([lines.length, level], [1, "warn"]);
  assert(String(message).includes("snapshot"), String(message));
  assertEquals(fields, {
    provider: "b",
    event_id: "evt_1",
    type: "v1.customer.subscription.created",
    outcomes: { ignored: 1 },
  });
});

Deno.test("processEvent() ignores a one-off invoice without touching the database", async () => {
  const { result, calls, lines } = await process(
    '{"id":"evt_1","type":"invoice.payment_failed","data":{"object":{}}}',
  );
  await result;
  assertEquals([calls.length, lines.length], [0, 1]);
});

Deno.test("processEvent() ignores a creation without an account id if so configured, else stores it", async () => {
  const creation = JSON.stringify({
    id: "evt_1",
    type: "customer.subscription.created",
    data: { object: { id: "sub_1", metadata: {} } },
  });
  const ignored = await process(creation, {}, {
    unmappedSubscriptions: "ignore",
  });
  await ignored.result;
  assertEquals(ignored.calls, []);
  assertEquals(ignored.lines, [["info", "unmapped event ignored", {
    provider: "b",
    event_id: "evt_1",
    type: "customer.subscription.created",
    code: "event_invalid",
    outcomes: { ignored: 1 },
  }]]);

  const filed = await process(creation);
  await assertRejects(() => filed.result, DeliveryError);
  assertEquals(filed.calls.map(({ name }) => name), [
    "billing_record_failed_event",
  ]);
});

Deno.test("processEvent() stores an unmapped event if the database is down", async () => {
  const { result, calls } = await process(DELETION, {
    billing_apply_events: refusal("57014"),
  }, { unmappedSubscriptions: "ignore" });
  await assertRejects(() => result, DeliveryError);
  assertEquals(calls.length, 2);
});

Deno.test("processEvent() logs nothing unchecked of an ignored event", async () => {
  for (const text of ["a\nb", "x".repeat(300), "a\u2028b"]) {
    const { result, lines } = await process(
      JSON.stringify({ id: text, type: text }),
    );
    await result;
    assertEquals(lines, [["info", "event ignored", {
      provider: "b",
      event_id: undefined,
      type: undefined,
      outcomes: { ignored: 1 },
    }]]);
  }
  const { lines: [line] } = await process('{"id":{"a":1},"type":"x"}');
  assertEquals(line?.[2], {
    provider: "b",
    event_id: undefined,
    type: "x",
    outcomes: { ignored: 1 },
  });
});

/** Authentic bodies that cannot be an event, and what they are filed as. */
const BAD: Record<
  string,
  [body: string | number[], code: string, text: boolean]
> = {
  "an empty body": ["", "body_empty", true],
  "malformed JSON": ['{"id":"evt_1"', "body_not_json", true],
  "invalid UTF-8": [[0x7b, 0xff], "body_not_text", false],
  "an array": ["[]", "event_invalid", true],
  "a zero byte": ['{"id":"\0"}', "body_not_json", false],
  "a missing field": [
    '{"id":"evt_1","type":"customer.subscription.deleted"}',
    "event_invalid",
    true,
  ],
};
for (const [name, [body, code, isText]] of Object.entries(BAD)) {
  Deno.test(`processEvent() stores ${name} and fails with ${code}`, async () => {
    const bytes = typeof body === "string"
      ? new TextEncoder().encode(body)
      : new Uint8Array(body);
    const { result, calls } = await process(bytes);
    const error = await assertRejects(() => result, DeliveryError);
    assertEquals(error.code, code);
    assertEquals(calls.map((call) => call.name), [
      "billing_record_failed_event",
    ]);
    const filed = calls[0]!.body;
    assertEquals(filed.p_provider, "b");
    assertEquals(filed.p_error_code, code);
    assertEquals(filed.p_error, error.message);
    assertEquals(filed.p_body_encoding, isText ? "text" : "base64");
    assertEquals(
      filed.p_body,
      isText ? body : btoa(String.fromCharCode(...bytes)),
    );
    assertEquals(filed.p_event_id, error.logFields.event_id);
    assertEquals(
      error.logFields.body_sha256,
      createHash("sha256").update(bytes).digest("hex"),
    );
  });
}

Deno.test("processEvent() judges the event's time by its clock, in seconds", async () => {
  const dated = (created: number) => DELETION.replace(`${NOW}`, `${created}`);
  await (await process(dated(NOW + 300))).result;
  const { result, calls } = await process(dated(NOW + 301));
  const error = await assertRejects(() => result, DeliveryError, "created: ");
  assertEquals(error.code, "event_invalid");
  assertEquals(calls.map(({ name }) => name), ["billing_record_failed_event"]);
});

Deno.test("processEvent() verifies a byte order mark as sent, and reads what follows it", async () => {
  const { result, calls } = await process(`\ufeff${DELETION}`);
  await result;
  assertEquals(calls.length, 1);
});

Deno.test("processEvent() stores an event that fails in the database", async () => {
  const { result, calls } = await process(DELETION, {
    billing_apply_events: applied({
      outcome: "failed",
      error_code: "BW001",
      error: "No subscription sub_1 is recorded.",
    }),
  });
  const error = await assertRejects(() => result, DeliveryError);
  assertEquals(error.code, "subscription_unknown");
  assertEquals(calls.map(({ name }) => name), [
    "billing_apply_events",
    "billing_record_failed_event",
  ]);
  assertEquals(calls[1]?.body, {
    p_provider: "b",
    p_event_id: "evt_1",
    p_type: "customer.subscription.deleted",
    p_kind: "deletion",
    p_subscription_id: "sub_1",
    p_occurred_at: new Date(NOW * 1000).toISOString(),
    p_body: DELETION,
    p_body_encoding: "text",
    p_error_code: "subscription_unknown",
    p_error: "No subscription sub_1 is recorded.",
  });
  assertEquals(error.logFields, {
    provider: "b",
    event_id: "evt_1",
    type: "customer.subscription.deleted",
    subscription_id: "sub_1",
    body_sha256: createHash("sha256").update(DELETION).digest("hex"),
  });
});

Deno.test("processEvent() stores an event whose call fails, if possible", async () => {
  const faults: [string, DeliveryError["code"]][] = [
    ["57014", "database_unavailable"],
    ["PGRST202", "deployment_fault"],
    ["22P05", "apply_failed"],
  ];
  for (const [fault, code] of faults) {
    const { result, calls } = await process(DELETION, {
      billing_apply_events: refusal(fault),
    });
    const error = await assertRejects(() => result, DeliveryError);
    assertEquals(error.code, code);
    assertEquals(calls[1]?.body.p_error_code, code);
  }
});

Deno.test("processEvent() acknowledges an event that fails but was applied before", async () => {
  const bodies = [
    DELETION,
    // Of another API version, say.
    JSON.stringify({ ...JSON.parse(DELETION), data: { object: {} } }),
  ];
  for (const body of bodies) {
    const { result, calls, lines } = await process(body, {
      billing_apply_events: refusal("57014"),
      billing_record_failed_event: () => Response.json(false),
    });
    await result;
    assertEquals(calls.at(-1)?.name, "billing_record_failed_event");
    assertEquals(lines.length, 1);
    assertEquals(lines[0]?.slice(0, 2), [
      "info",
      "duplicate of an applied event",
    ]);
  }
});

Deno.test("processEvent() wakes the worker for a payment failure that was applied by a call without an answer", async () => {
  const bodies = [
    [JSON.stringify(invoiceEvent({ created: NOW })), 1],
    [DELETION, 0],
  ] as const;
  for (const [body, wakes] of bodies) {
    const { result, wakes: counted } = await process(body, {
      billing_apply_events: refusal("57014"),
      billing_record_failed_event: () => Response.json(false),
    });
    await result;
    assertEquals(counted, wakes);
  }
});

Deno.test("processEvent() fails with its own code if storing fails too", async () => {
  const faults = [
    refusal("53300"),
    refusal("42501"),
    refusal("54000"),
    () => new Response("<html>", { status: 502 }),
    () => new Response("", { status: 404 }),
  ];
  for (const billing_record_failed_event of faults) {
    for (const body of ["{", DELETION]) {
      const { result, calls } = await process(body, {
        billing_apply_events: refusal("57014"),
        billing_record_failed_event,
      });
      const error = await assertRejects(() => result, DeliveryError);
      assertEquals(error.code, "failure_not_recorded");
      assertEquals(calls.at(-1)?.name, "billing_record_failed_event");
      assert(error.message.includes(
        body === "{" ? "body_not_json" : "database_unavailable",
      ));
      const { provider, event_id, body_sha256 } = error.logFields;
      assertEquals(provider, "b");
      assert(event_id !== undefined && body_sha256 !== undefined);
    }
  }
});

Deno.test("processEvent() tries a broken connection once more before it stores the event", async () => {
  let tries = 0;
  const { result, calls } = await process(DELETION, {
    billing_apply_events: () => {
      if (tries++ === 0) throw new TypeError("connection reset");
      return applied({ outcome: "applied" })();
    },
  });
  await result;
  assertEquals(calls.map(({ name }) => name), [
    "billing_apply_events",
    "billing_apply_events",
  ]);
});

Deno.test("processEvent() stores nothing while the receiver is overloaded, and knows the event", async () => {
  const { result, calls } = await process(DELETION, {}, {
    apply: () =>
      Promise.reject(new DeliveryError("overloaded", "Too many wait")),
  });
  const error = await assertRejects(() => result, DeliveryError);
  assertEquals(error.code, "overloaded");
  assertEquals(calls, []);
  assertEquals(error.logFields.event_id, "evt_1");
});

Deno.test("processEvent() keeps apart what is known of events whose call failed", async () => {
  const shared = new DeliveryError("overloaded", "Too many wait");
  const apply = () => Promise.reject(shared);
  for (const id of ["evt_1", "evt_2"]) {
    const body = DELETION.replace("evt_1", id);
    const { result } = await process(body, {}, { apply });
    const error = await assertRejects(() => result, DeliveryError);
    assertEquals([error.code, error.message], [shared.code, shared.message]);
    assertEquals(error.logFields.event_id, id);
  }
  assertEquals(shared.logFields, {});
});

for (
  const [type, outcome, wakes] of [
    ["invoice.payment_failed", "applied", 1],
    // The delivery that applied it may have ended before it woke anybody.
    ["invoice.payment_failed", "duplicate", 1],
    ["customer.subscription.deleted", "applied", 0],
    ["customer.subscription.deleted", "duplicate", 0],
  ] as const
) {
  Deno.test(`processEvent() wakes the worker ${wakes} times for ${type} that is ${outcome}`, async () => {
    const event = type === "invoice.payment_failed"
      ? JSON.stringify(invoiceEvent({ created: NOW }))
      : DELETION;
    const { result, wakes: counted } = await process(event, {
      billing_apply_events: applied({ outcome }),
    });
    await result;
    assertEquals(counted, wakes);
  });
}
