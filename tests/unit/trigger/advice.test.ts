import { assertEquals } from "@std/assert";
import { advice, type Sent } from "../../../scripts/trigger/advice.ts";
import type { EventArguments } from "../../../scripts/trigger/arguments.ts";

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const RECORDED = [
  "The event is in billing.failed_events.",
  "To repair it: deno task console, or docs/runbook.md for SQL",
];

function after(
  answer: { status: number; body?: string; errorCode?: string },
  given: Partial<EventArguments> = {},
  where: Partial<Sent> = {},
): readonly string[] {
  const source = { type: UPDATED, ...given } as const;
  return advice({ body: "", ...answer }, { provider: "a", source, ...where });
}

for (
  const [given, where, expected] of [
    [{ type: CREATED }, {}, [`Next: deno task trigger ${UPDATED}`]],
    [{ type: UPDATED }, {}, ["Next: deno task trigger invoice.payment_failed"]],
    [{ type: "invoice.payment_failed" }, {}, [
      "The receiver added a row to billing.notifications, and the worker sends it.",
      "Next:",
      "deno task trigger customer.subscription.deleted",
    ]],
    [{ type: "customer.subscription.deleted" }, {}, [
      "Next, another subscription:",
      `deno task trigger ${CREATED} --subscription sub_local_a_2`,
    ]],
    [{ type: "payment_intent.payment_failed" }, {}, [
      "The receiver does not handle this type: it acknowledged the event and stored",
      "nothing.",
    ]],
    // What a shell would read otherwise is quoted.
    [{ type: CREATED, subscription: "it's" }, {}, [
      `Next: deno task trigger ${UPDATED} --subscription 'it'\\''s'`,
    ]],
    [
      { type: UPDATED, subscription: "sub_1" },
      { provider: "b", url: "http://127.0.0.1:1/" },
      [
        "Next:",
        "deno task trigger invoice.payment_failed \\",
        "  --provider b \\",
        "  --subscription sub_1 \\",
        "  --url http://127.0.0.1:1/",
      ],
    ],
    [{}, { source: { payload: "x" } }, []],
  ] as const
) {
  Deno.test(`advice() after a success with ${JSON.stringify({ ...given, ...where })}`, () => {
    assertEquals(after({ status: 200, body: "OK" }, given, where), [
      ...expected,
    ]);
  });
}

const CREATE = `deno task trigger ${CREATED} --subscription sub_1`;
const LOG = "The receiver's log has the reason.";

for (
  const [answer, given, expected] of [
    [{ status: 401 }, { provider: "b" }, [
      "most likely signature_mismatch: do both sides use the same",
      "PROVIDER_B_SIGNING_SECRET?",
      "This command reads it from its environment, else from supabase/functions/.env.",
    ]],
    [{ status: 404, body: "other" }, {}, [
      "most likely path_unknown: the path is /functions/v1/billing-webhook",
    ]],
    [{ status: 413 }, {}, [
      "body_too_large: raise MAX_BODY_BYTES if the event is real",
    ]],
    [{ status: 400, body: "Body is empty" }, {}, [
      "body_empty: the sender must send the event as it is, as JSON",
      ...RECORDED,
    ]],
    [{ status: 422, errorCode: "event_invalid" }, {}, RECORDED],
    [{ status: 500, body: "Receiver is not configured" }, {}, [LOG]],
    [{ status: 500 }, {}, [
      "most likely subscription_unknown: send its creation first; this event applies",
      "on retry",
      CREATE,
    ]],
    [{ status: 500, errorCode: "creation_pending" }, {}, [
      "creation_pending: send its creation first; this event applies on retry",
      CREATE,
    ]],
    [{ status: 500 }, { type: CREATED }, [LOG, ...RECORDED]],
    [{ status: 500 }, { source: { payload: "x" } }, [LOG, ...RECORDED]],
    [{ status: 500, errorCode: "apply_failed" }, {}, [
      "apply_failed: select error, payload from billing.failed_events;",
      ...RECORDED,
    ]],
    [{ status: 503 }, {}, [
      "most likely database_unavailable: the database does not answer; send it again",
      "To send the same event, add --event and its ID.",
    ]],
    [{ status: 503, errorCode: "record_locked" }, {}, [
      "record_locked: another session locks the record; send it again",
      "To send the same event, add --event and its ID.",
      ...RECORDED,
    ]],
    [{ status: 302 }, {}, []],
  ] as const
) {
  Deno.test(`advice() after ${JSON.stringify({ ...answer, ...given })}`, () => {
    const { type, ...where } = { type: UPDATED, ...given } as const;
    const event = { type, subscription: "sub_1" } as const;
    assertEquals(after(answer, event, where), [...expected]);
  });
}
