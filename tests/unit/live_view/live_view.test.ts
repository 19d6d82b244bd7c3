import { assert, assertEquals } from "@std/assert";
import { ANSWERS } from "../../../supabase/functions/_shared/billing/errors.ts";
import { createLiveView } from "../../../scripts/live_view/live_view.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";

/** A view with a clock of its own. Styles are printed in front of their texts. */
function viewed({ columns = 80, styles = false } = {}) {
  const lines: string[] = [];
  let nowMs = new Date(2026, 10, 22, 9, 5, 7).getTime();
  const view = createLiveView({
    print: (line) => lines.push(line),
    columns: () => columns,
    paint: (style, text) => styles ? `<${style}>${text}` : text,
    clock: () => nowMs,
  });
  const log = (fields: object, source = "webhook") =>
    view.onLog(
      JSON.stringify({ level: "info", message: "-", ...fields }),
      source,
    );
  return { view, lines, log, pass: (ms: number) => nowMs += ms };
}

const APPLIED = {
  outcomes: { applied: 1 },
  type: "customer.subscription.created",
  subscription_id: "sub_local_a",
  event_id: "evt_1SBiOdBe0ycHroRBN3pieuMu",
  provider: "a",
  duration_ms: 4.2,
};
const { outcomes: _, ...REST } = APPLIED;
const FAILED = { ...REST, level: "warn", status: 500, code: "internal_error" };
const HEAD = "subscription.created   sub_local_a evt_1S…pieuMu    4 ms";

/** The lines that a view of 80 columns prints. */
function shown(
  line: object | string,
  source?: string,
  options: { columns?: number; styles?: boolean } = {},
): string[] {
  using _timers = useFakeTimers();
  const { view, lines, log } = viewed(options);
  if (typeof line === "string") view.onLog(line, source!);
  else log(line, source);
  view[Symbol.dispose]();
  return lines.map((line) => line.replace("09:05:07 ", ""));
}

for (
  const [outcome, style] of [
    ["applied", "green"],
    ["duplicate", "yellow"],
    ["stale", "yellow"],
    ["ignored", "dim"],
  ] as const
) {
  Deno.test(`a delivery that was ${outcome} has one line`, () => {
    const fields = { ...APPLIED, outcomes: { applied: 0, [outcome]: 1 } };
    assertEquals(shown(fields), [`200 ${outcome.padEnd(9)} ${HEAD}`]);
    const [line = ""] = shown(fields, "webhook", { styles: true });
    assert(line.startsWith(`<dim><${style}>200 <${style}>${outcome}`), line);
  });
}

Deno.test("a failure has the next step below it", () => {
  assertEquals(shown({ ...FAILED, code: "subscription_unknown" }), [
    `500 failed    ${HEAD}`,
    "    subscription_unknown: send its creation first; this event applies on retry",
  ]);
  const [line = ""] = shown(FAILED, "webhook", { styles: true });
  assert(line.startsWith("<dim><red>500 <red>failed"), line);
});

for (
  const [fields, expected] of [
    [
      { code: "event_invalid", error: "data.object.id is missing" },
      "event_invalid: data.object.id is missing",
    ],
    [
      { code: "signature_missing", provider: "b" },
      "signature_missing: set PROVIDER_B_SIGNATURE_HEADER to the sender's header",
    ],
    [
      {
        code: "provider_misconfigured",
        error: "Cannot verify deliveries of provider a: no secret",
      },
      "provider_misconfigured: no secret",
    ],
    [
      { code: "deployment_fault", error: "Database call failed: PGRST202: x" },
      "deployment_fault: a restart of start applies the migration",
    ],
    [
      { code: "deployment_fault", error: "Database call failed: 42501: x" },
      "deployment_fault: 42501: x",
    ],
    [{ code: "new_code", error: "Why." }, "new_code: Why."],
  ] as const
) {
  Deno.test(`the next step after ${JSON.stringify(fields)}`, () => {
    const lines = shown({ ...FAILED, ...fields });
    assertEquals(lines[1], `    ${expected}`);
  });
}

Deno.test("a warning is shown whole", () => {
  const message = "thin event ignored, and its change is lost: at the " +
    "provider, replace this destination";
  const fields = { ...APPLIED, level: "warn", message };
  const [, ...below] = shown({ ...fields, outcomes: { ignored: 1 } });
  assertEquals(below.map((line) => line.trim()).join(" "), message);
});

Deno.test("no line is as wide as the terminal, and control characters are escaped", () => {
  for (const columns of [80, 81, 100, 200]) {
    for (const text of ["x".repeat(255), "\u001b[2J\u202e漢字 ".repeat(9)]) {
      const names = ["type", "subscription_id", "event_id"];
      const ids = Object.fromEntries(names.map((name) => [name, text]));
      for (const code of Object.keys(ANSWERS)) {
        const fields = { ...FAILED, ...ids, code, error: "y ".repeat(99) };
        for (const duration_ms of [1, 9_999.6, 99_999]) {
          const lines = shown({ ...fields, duration_ms }, "webhook", {
            columns,
          });
          for (const line of lines) assert(line.length < columns, line);
          assertEquals(/[\u001b\u6f22]/.test(lines.join()), false);
        }
      }
    }
  }
  const [wide = ""] = shown(APPLIED, "webhook", { columns: 140 });
  assert(/ sub_local_a +evt_1SBiOdBe0ycHroRBN3pieuMu +4 ms$/.test(wide), wide);
});

Deno.test("a narrow terminal gets the log lines", () => {
  assertEquals(shown("{\u001b", "worker", { columns: 79 }), [
    "[worker] {\\u001b",
  ]);
});

for (
  const [line, source, expected] of [
    [
      {
        message: "failures retried",
        counts: { claimed: 3, applied: 2, failed: 0 },
      },
      "worker",
      ["    <cyan>worker    failures retried: 2 applied"],
    ],
    [
      { level: "warn", message: "notification not delivered", error: "500" },
      "worker",
      ["    <red>worker    notification not delivered: 500"],
    ],
    [
      "verified: payment of $20.00 failed for acc_local (sub_local_a): https://pay.example/1",
      "notification",
      [
        "    <cyan>notified  payment of $20.00 failed for acc_local (sub_local_a):",
        "                       https://pay.example/1",
      ],
    ],
    [
      `verified: pay: https://${"x".repeat(60)}`,
      "notification",
      ["    <cyan>notified  pay:", `    https://${"x".repeat(60)}`],
    ],
    [
      "alert: event_invalid: 1 new, 2 open",
      "notification",
      ["    <red>alert     event_invalid: 1 new, 2 open"],
    ],
    ["error: x", "webhook", ["    <cyan>webhook   error: x"]],
    ["{broken", "worker", ["    <cyan>worker    {broken"]],
  ] as const
) {
  Deno.test(`a line of ${source}: ${JSON.stringify(line)}`, () => {
    const lines = shown(line, source, { styles: true });
    assertEquals(lines.map((line) => line.replace("<dim>", "")), [
      ...expected,
    ]);
  });
}

Deno.test("in a burst, ten of each kind are shown and the rest is counted", async () => {
  using timers = useFakeTimers();
  const { view, lines, log, pass } = viewed();
  for (let i = 0; i < 12; i++) view.onLog("verified: x", "notification");
  for (let i = 0; i < 1_210; i++) log(APPLIED);
  for (let i = 0; i < 13; i++) log({ ...FAILED, error: "x" });
  log({ outcomes: { applied: 4, stale: 2 }, duration_ms: 3, lines: 6 });
  assertEquals(lines.length, 10 + 10 + 2 * 10);
  pass(1_000);
  await timers.pass(1_000);
  assertEquals(lines.slice(40), [
    "09:05:08     ... and 1,211 more: 2 other lines, 1,204 applied, 3 failed, 2",
    "                 stale",
  ]);
  log(APPLIED);
  assertEquals(lines.length, 43, "the next second begins anew");
  await timers.pass(1_000);
  assertEquals(lines.length, 43, "nothing was hidden in it");
  log({ outcomes: { applied: 5 }, lines: 5 });
  view[Symbol.dispose]();
  assertEquals(lines[43], "09:05:08     ... and 5 more: 5 applied");
  assertEquals(timers.pending(), 0);
});
