import { assert, assertEquals } from "@std/assert";
import { createLiveView } from "../../../scripts/live_view/live_view.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";

function viewed() {
  const lines: string[] = [];
  let nowMs = new Date(2026, 10, 22, 9, 5, 7).getTime();
  const view = createLiveView({
    print: (line) => lines.push(line),
    columns: () => 80,
    paint: (_style, text) => text,
    clock: () => nowMs,
  });
  let sent = 0;
  function deliver(fields: Record<string, unknown>) {
    sent++;
    view.onLog(
      JSON.stringify({
        level: "info",
        message: "events applied",
        event_id: `evt_${sent}`,
        type: "ping",
        duration_ms: 1,
        ...fields,
      }),
      "webhook",
    );
  }
  return { view, lines, deliver, pass: (ms: number) => nowMs += ms };
}

const APPLIED = { outcomes: { applied: 1 } };
const FAILED = { status: 500, code: "internal_error", error: "x" };

Deno.test("the view shows each delivery as it happens, with its own ID", () => {
  using timers = useFakeTimers();
  const { view, lines, deliver } = viewed();
  deliver(APPLIED);
  assertEquals(lines.length, 1);
  deliver({ outcomes: { stale: 1 } });
  deliver(FAILED);
  assertEquals(lines.map((line) => line.split(/ +/).slice(0, 5).join(" ")), [
    "09:05:07 200 applied ping -",
    "09:05:07 200 stale ping -",
    "09:05:07 500 failed ping -",
    " internal_error: x",
  ]);
  assertEquals(lines.map((line) => /evt_\d+/.exec(line)?.[0]), [
    "evt_1",
    "evt_2",
    "evt_3",
    undefined,
  ]);
  view[Symbol.dispose]();
  assertEquals([lines.length, timers.pending()], [4, 0]);
});

Deno.test("in a burst, ten of each kind are shown and the rest is counted", async () => {
  using timers = useFakeTimers();
  const { view, lines, deliver, pass } = viewed();
  for (let i = 0; i < 1_210; i++) deliver(APPLIED);
  for (let i = 0; i < 13; i++) deliver(FAILED);
  assertEquals(lines.length, 10 + 2 * 10);
  pass(1_000);
  await timers.pass(1_000);
  assertEquals(
    lines.slice(30),
    ["09:05:08     ... and 1,203 more: 1,200 applied, 3 failed"],
  );
  deliver(APPLIED);
  assertEquals(lines.length, 32, "the next second begins anew");
  pass(1_000);
  await timers.pass(1_000);
  assertEquals(lines.length, 32, "nothing was hidden in it");
  view[Symbol.dispose]();
});

Deno.test("lines that stand for many are counted by their outcomes", () => {
  using timers = useFakeTimers();
  const { view, lines, deliver } = viewed();
  deliver({ outcomes: { applied: 400, duplicate: 2 }, lines: 402 });
  assertEquals(lines, []);
  assert(timers.pending() === 1);
  view[Symbol.dispose]();
  assertEquals(lines, [
    "09:05:07     ... and 402 more: 400 applied, 2 duplicate",
  ]);
  assertEquals(timers.pending(), 0);
});

Deno.test("lines of the worker never hide deliveries", () => {
  using _timers = useFakeTimers();
  const { view, lines, deliver } = viewed();
  for (let i = 0; i < 12; i++) view.onLog("verified: x", "notification");
  deliver(APPLIED);
  assertEquals(lines.length, 11);
  view[Symbol.dispose]();
  assertEquals(lines.at(-1), "09:05:07     ... and 2 more: 2 other lines");
});
