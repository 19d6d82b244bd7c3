import { assertEquals } from "@std/assert";
import { throttleInfo } from "../../../supabase/functions/billing-webhook/throttle_info.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";

const INTERVAL = 1_000;

function throttled({ maxLines = 1 } = {}) {
  const lines: unknown[][] = [];
  const log = throttleInfo((...line) => lines.push(line), {
    intervalMs: INTERVAL,
    maxLines,
  });
  return { lines, log };
}

Deno.test("throttleInfo() writes a single line at once and as it is", async () => {
  using timers = useFakeTimers();
  const { lines, log } = throttled();
  log("info", "events applied", { outcomes: { applied: 1 } });
  assertEquals(lines, [["info", "events applied", {
    outcomes: { applied: 1 },
  }]]);
  await timers.pass(2 * INTERVAL);
  assertEquals(lines.length, 1, "nothing follows");
});

Deno.test("throttleInfo() sums up what comes within the interval", async () => {
  using timers = useFakeTimers();
  const { lines, log } = throttled();
  for (
    const outcomes of [{ applied: 1 }, { applied: 2 }, { stale: 1, applied: 3 }]
  ) {
    log("info", "events applied", { outcomes, duration_ms: 5 });
  }
  assertEquals(lines.length, 1);
  await timers.pass(INTERVAL);
  assertEquals(lines[1], ["info", "events applied", {
    outcomes: { applied: 5, stale: 1 },
    duration_ms: 5,
    lines: 2,
  }]);
  await timers.pass(3 * INTERVAL);
  log("info", "events applied", { outcomes: { applied: 1 } });
  assertEquals(lines.length, 3, "after an idle interval a line passes at once");
});

Deno.test("throttleInfo() writes as many lines as allowed before it sums up", async () => {
  using timers = useFakeTimers();
  const { lines, log } = throttled({ maxLines: 3 });
  for (let i = 1; i <= 5; i++) {
    log("info", "events applied", { outcomes: { applied: 1 }, i });
  }
  assertEquals(lines.map(([, , fields]) => fields), [
    { outcomes: { applied: 1 }, i: 1 },
    { outcomes: { applied: 1 }, i: 2 },
    { outcomes: { applied: 1 }, i: 3 },
  ]);
  await timers.pass(INTERVAL);
  assertEquals(lines[3]?.[2], { outcomes: { applied: 2 }, i: 5, lines: 2 });
  for (let i = 6; i <= 9; i++) log("info", "events applied", { i });
  assertEquals(lines.length, 6, "the summary counts as a line");
  await timers.pass(INTERVAL);
  assertEquals(lines.length, 7, "the rest is summed up");
});

Deno.test("throttleInfo() keeps messages apart", async () => {
  using timers = useFakeTimers();
  const { lines, log } = throttled();
  log("info", "events applied");
  log("info", "event ignored", { type: "ping" });
  log("info", "event ignored", { type: "pong" });
  assertEquals(lines.map(([, message]) => message), [
    "events applied",
    "event ignored",
  ]);
  await timers.pass(INTERVAL);
  assertEquals(lines[2], ["info", "event ignored", { type: "pong", lines: 1 }]);
});

Deno.test("throttleInfo() lets every warning and error pass at once", () => {
  const { lines, log } = throttled();
  for (let i = 0; i < 3; i++) {
    log("warn", "delivery failed", { code: "signature_mismatch" });
    log("error", "delivery failed", { code: "internal_error" });
  }
  assertEquals(lines.length, 6);
});
