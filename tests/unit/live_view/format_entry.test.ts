import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { ERRORS } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  deliveryLines,
  noteLines,
  summaryLines,
} from "../../../scripts/live_view/format_entry.ts";
import { fit } from "../../../scripts/live_view/fit_text.ts";
import type { Delivery } from "../../../scripts/live_view/read_log_line.ts";

const AT = {
  timeMs: new Date(2026, 10, 22, 9, 5, 7).getTime(),
  columns: 80,
  paint: (_style: string, text: string) => text,
};
const APPLIED: Delivery = {
  kind: "delivery",
  status: 200,
  outcome: "applied",
  type: "customer.subscription.created",
  subscription: "sub_local_a",
  event: "evt_1SBiOdBe0ycHroRBN3pieuMu",
  provider: "a",
  durationMs: 4.2,
  code: undefined,
  error: undefined,
  warning: undefined,
};
const FAILED: Delivery = {
  ...APPLIED,
  status: 500,
  outcome: "failed",
  code: "subscription_unknown",
  error: "No subscription sub_local_a is recorded.",
};

Deno.test("deliveryLines() has time, status, outcome, type, both IDs and milliseconds", () => {
  assertEquals(deliveryLines(APPLIED, AT), [
    "09:05:07 200 applied   subscription.created   sub_local_a evt_1S…pieuMu    4 ms",
  ]);
});

Deno.test("deliveryLines() shows whole IDs on a wide terminal", () => {
  const [line = ""] = deliveryLines(APPLIED, { ...AT, columns: 140 });
  assertMatch(line, / sub_local_a +evt_1SBiOdBe0ycHroRBN3pieuMu +4 ms$/);
});

Deno.test("deliveryLines() says what to do after a failure", () => {
  assertEquals(deliveryLines(FAILED, AT), [
    "09:05:07 500 failed    subscription.created   sub_local_a evt_1S…pieuMu    4 ms",
    "    subscription_unknown: send its creation first; this event applies on retry",
  ]);
});

Deno.test("deliveryLines() names what is missing, and the provider's own secret", () => {
  const step = (changes: Partial<Delivery>) =>
    deliveryLines({ ...FAILED, ...changes }, AT)[1];
  assertEquals(
    step({ code: "event_invalid", error: "data.object.id is missing" }),
    "    event_invalid: data.object.id is missing",
  );
  assertEquals(
    step({ code: "signature_mismatch", provider: "b" }),
    "    signature_mismatch: secrets differ: check PROVIDER_B_SIGNING_SECRET",
  );
  assertEquals(
    step({
      code: "provider_misconfigured",
      error:
        "Cannot verify deliveries of provider a: PROVIDER_A_SIGNING_SECRET is not set: x",
    }),
    "    provider_misconfigured: PROVIDER_A_SIGNING_SECRET is not set: x",
  );
  assertEquals(step({ code: "new_code", error: "Why." }), "    new_code: Why.");
});

Deno.test("deliveryLines() offers a restart only if the receiver's own migration is missing", () => {
  const step = (error: string) =>
    deliveryLines({ ...FAILED, code: "deployment_fault", error }, {
      ...AT,
      columns: 140,
    })[1];
  for (
    const error of [
      "Database call failed: PGRST202: Could not find the function public.billing_apply_events(events) in the schema cache",
    ]
  ) {
    assertEquals(
      step(error),
      "    deployment_fault: a restart of start applies the migration",
    );
  }
  for (
    const [error, says] of [
      [
        '42P01: relation "app.audit_log" does not exist',
        '42P01: relation "app.audit_log" does not exist',
      ],
      [
        "Database call failed: 42501: permission denied for schema app",
        "42501: permission denied for schema app",
      ],
    ]
  ) {
    assertEquals(step(error!), `    deployment_fault: ${says}`);
  }
});

Deno.test("deliveryLines() shows a warning in full", () => {
  const ignored = { ...APPLIED, outcome: "ignored" } as const;
  const warning =
    "thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads";
  const [, ...below] = deliveryLines({ ...ignored, warning }, AT);
  assertEquals(below.map((line) => line.trim()).join(" "), warning);
  for (const line of below) assert(line.length < 80, line);
});

Deno.test("no line about a delivery is as wide as the terminal", () => {
  const long = "x".repeat(255);
  const hostile = "\u001b[2J\u202e漢字".repeat(20);
  for (const columns of [40, 52, 53, 60, 71, 72, 80, 81, 100, 200]) {
    for (const code of Object.keys(ERRORS)) {
      for (const text of [long, hostile]) {
        const lines = deliveryLines({
          ...FAILED,
          code,
          type: text,
          subscription: text,
          event: text,
          error: text,
          durationMs: 99_999,
        }, { ...AT, columns });
        assertEquals(lines.length, columns < 80 ? lines.length : 2);
        assert(lines.length <= 4, lines.join("\n"));
        for (const line of lines) assert(shownColumns(line) < columns, line);
        assertEquals(lines.join().includes("\u001b"), false);
      }
    }
  }
});

Deno.test("a terminal that is narrower shows a delivery all the same", () => {
  for (let columns = 1; columns < 40; columns++) {
    const at = { ...AT, columns };
    assert(deliveryLines(FAILED, at)[0]!.startsWith("09:05:07 500 failed "));
  }
});

Deno.test("a narrow terminal leaves out columns, the event's ID last", () => {
  const at = (columns: number) => deliveryLines(APPLIED, { ...AT, columns })[0];
  assertEquals(
    at(60),
    "09:05:07 200 applied   subscript…n.created evt_1SB…N3pieuMu",
  );
  assertEquals(at(40), "09:05:07 200 applied   evt_1SB…N3pieuMu");
});

Deno.test("a narrow terminal shows the next step on up to three lines", () => {
  const [, ...below] = deliveryLines(FAILED, { ...AT, columns: 40 });
  assertEquals(below, [
    "    subscription_unknown: send its",
    "    creation first; this event applies",
    "    on retry",
  ]);
});

Deno.test("no other line is as wide as the terminal", () => {
  const text = "subscription_unknown: 12 new, 1,234 open";
  const counts = {
    applied: 1_249,
    duplicate: 1_249,
    stale: 1_249,
    ignored: 1_249,
    failed: 1_249,
    "other lines": 12,
  };
  for (const columns of [40, 60, 80, 120]) {
    const at = { ...AT, columns };
    const lines = [
      ...noteLines({ kind: "note", word: "alert", text, isFailure: true }, at),
      ...summaryLines(counts, at),
    ];
    for (const line of lines) assert(line.length < columns, line);
    const all = lines.join(" ").replaceAll(/ +/g, " ");
    assertStringIncludes(all, text);
    assertStringIncludes(all, "1,249 failed, 12 other lines");
  }
});

Deno.test("no next step is cut at 80 columns, whichever the code", () => {
  const cut = Object.keys(ERRORS)
    .map((code) => deliveryLines({ ...FAILED, code, error: "Why." }, AT)[1]!)
    .filter((line) => line.includes("…") || line.includes("undefined"));
  assertEquals(cut, []);
});

Deno.test("deliveryLines() paints outcomes, and nothing else depends on colours", () => {
  const paint = (style: string, text: string) => `<${style}>${text}</>`;
  for (
    const [outcome, style] of [
      ["applied", "green"],
      ["duplicate", "yellow"],
      ["stale", "yellow"],
      ["ignored", "dim"],
      ["failed", "red"],
    ] as const
  ) {
    const delivery = { ...FAILED, outcome };
    const [line = ""] = deliveryLines(delivery, { ...AT, paint });
    assertMatch(line, new RegExp(`<${style}>${outcome} *</>`));
    assertEquals(
      line.replaceAll(/<.*?>/g, ""),
      deliveryLines(delivery, AT)[0],
    );
  }
});

Deno.test("noteLines() wraps at words below the first one", () => {
  const text =
    "payment of $20.00 failed for acc_local (sub_local_a): https://pay.example/1";
  const note = { kind: "note", word: "notified", text, isFailure: false };
  assertEquals(noteLines({ ...note, kind: "note" }, AT), [
    "09:05:07     notified  payment of $20.00 failed for acc_local (sub_local_a):",
    "                       https://pay.example/1",
  ]);
});

Deno.test("noteLines() keeps a long URL in one piece, on one line if possible", () => {
  const url = `https://${"x".repeat(60)}`;
  assertEquals(
    noteLines(
      { kind: "note", word: "notified", text: `pay: ${url}`, isFailure: false },
      AT,
    ),
    ["09:05:07     notified  pay:", `    ${url}`],
  );
});

Deno.test("summaryLines() counts what was not shown", () => {
  assertEquals(
    summaryLines({ applied: 1_200, stale: 0, failed: 3 }, AT),
    ["09:05:07     ... and 1,203 more: 1,200 applied, 3 failed"],
  );
});

Deno.test("fit() keeps the beginning and the end", () => {
  assertEquals(fit("abc", 5), "abc  ");
  assertEquals(fit("abcde", 5), "abcde");
  assertEquals(fit("abcdefghij", 5), "ab…ij");
  assertEquals(fit("abcdefghij", 6), "ab…hij");
  assertEquals(fit("漢字漢字", 5), "漢…字");
  assertEquals(fit("漢字漢字", 6), "漢…字 ");
});

/** A wide character takes two columns. */
function shownColumns(line: string): number {
  return Array.from(line).reduce(
    (sum, one) => sum + (/\p{Script=Han}/u.test(one) ? 2 : 1),
    0,
  );
}
