import { assertEquals } from "@std/assert";
import { readLogLine } from "../../../scripts/live_view/read_log_line.ts";

function webhook(fields: Record<string, unknown>) {
  return readLogLine(JSON.stringify({ level: "info", ...fields }), "webhook");
}

for (const outcome of ["applied", "duplicate", "stale", "ignored"] as const) {
  Deno.test(`readLogLine() reads a delivery that was ${outcome}`, () => {
    assertEquals(
      webhook({
        message: "events applied",
        provider: "a",
        event_id: "evt_1",
        type: "ping",
        subscription_id: "sub_1",
        outcomes: { [outcome]: 1 },
        duration_ms: 3,
      }),
      {
        kind: "delivery",
        status: 200,
        outcome,
        type: "ping",
        subscription: "sub_1",
        event: "evt_1",
        provider: "a",
        durationMs: 3,
        code: undefined,
        error: undefined,
        warning: undefined,
      },
    );
  });
}

Deno.test("readLogLine() reads a failure", () => {
  assertEquals(
    webhook({
      level: "warn",
      message: "delivery failed",
      duration_ms: 1,
      code: "signature_missing",
      status: 401,
      error: "No signature header",
    }),
    {
      kind: "delivery",
      status: 401,
      outcome: "failed",
      type: undefined,
      subscription: undefined,
      event: undefined,
      provider: undefined,
      durationMs: 1,
      code: "signature_missing",
      error: "No signature header",
      warning: undefined,
    },
  );
});

Deno.test("readLogLine() reads the warning about an event that was ignored", () => {
  const entry = webhook({
    level: "warn",
    message: "thin event ignored",
    outcomes: { ignored: 1 },
    duration_ms: 1,
  });
  assertEquals(
    entry.kind === "delivery" && [entry.outcome, entry.warning],
    ["ignored", "thin event ignored"],
  );
});

Deno.test("readLogLine() reads a line that stands for many", () => {
  assertEquals(
    webhook({
      message: "events applied",
      event_id: "evt_9",
      outcomes: { applied: 5, stale: 1 },
      duration_ms: 3,
      lines: 6,
    }),
    { kind: "summary", counts: { applied: 5, stale: 1 } },
  );
});

Deno.test("readLogLine() reads the worker's lines and the notifications", () => {
  const cases = [
    [
      '{"level":"info","message":"failures retried","counts":{"claimed":3,"applied":2,"failed":1,"stale":0}}',
      "worker",
      {
        word: "worker",
        text: "failures retried: 2 applied, 1 failed",
        isFailure: false,
      },
    ],
    [
      '{"level":"warn","message":"notification not delivered","notification_id":4,"error":"answered 500"}',
      "worker",
      {
        word: "worker",
        text: "notification not delivered: answered 500",
        isFailure: true,
      },
    ],
    [
      "verified: payment failed for acc_1 (sub_1)",
      "notification",
      {
        word: "notified",
        text: "payment failed for acc_1 (sub_1)",
        isFailure: false,
      },
    ],
    [
      "alert: event_invalid: 1 new, 2 open",
      "notification",
      { word: "alert", text: "event_invalid: 1 new, 2 open", isFailure: true },
    ],
    [
      "error: Uncaught SyntaxError",
      "webhook",
      {
        word: "webhook",
        text: "error: Uncaught SyntaxError",
        isFailure: false,
      },
    ],
    ["{broken", "worker", {
      word: "worker",
      text: "{broken",
      isFailure: false,
    }],
  ] as const;
  for (const [line, source, note] of cases) {
    assertEquals(readLogLine(line, source), { kind: "note", ...note });
  }
});
