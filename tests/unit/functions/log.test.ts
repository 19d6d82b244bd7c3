import { assertEquals } from "@std/assert";
import {
  logJson,
  type LogLevel,
} from "../../../supabase/functions/_shared/billing/log.ts";
import { throttleInfo } from "../../../supabase/functions/billing-webhook/throttle_info.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";

const LEVELS: readonly LogLevel[] = ["info", "warn", "error"];

/** What is written to the console, at which level, while `write` runs. */
function written(write: () => void): unknown[][] {
  const lines: unknown[][] = [];
  const { info, warn, error } = console;
  for (const level of LEVELS) {
    console[level] = (...args: unknown[]) => lines.push([level, ...args]);
  }
  write();
  Object.assign(console, { info, warn, error });
  return lines;
}

Deno.test("logJson() writes one JSON object per line, and lets no value forge one", () => {
  for (const level of LEVELS) {
    const fields = { a: undefined, b: '"}\n\u001b{', c: { applied: 1 } };
    assertEquals(written(() => logJson(level, "%s\r\n", fields)), [
      [level, JSON.stringify({ level, message: "%s\r\n", ...fields })],
    ]);
  }
  assertEquals(written(() => logJson("info", "x")).length, 1);
});

/** What is logged, then the time that passes, then what is written by then. */
const STEPS: [
  maxLines: number,
  ...steps: [logged: object[], ms: number, written: object[]][],
][] = [
  [
    1,
    [[{ n: 1 }], 0, [{ n: 1 }]],
    // The rest is summed up at the end of the interval.
    [[{ outcomes: { a: 2 } }, { n: 3, outcomes: { b: 1, a: 3 } }], 999, []],
    [[], 1, [{ n: 3, outcomes: { a: 5, b: 1 }, lines: 2 }]],
    // The sum counts as a line of the next interval.
    [[{ n: 4 }], 1_000, [{ n: 4, lines: 1 }]],
    // After an idle interval a line passes at once, and nothing follows.
    [[], 1_000, []],
    [[{ n: 5 }], 0, [{ n: 5 }]],
    [[], 9_000, []],
    [[{ n: 6 }], 0, [{ n: 6 }]],
  ],
  [
    3,
    [[{ n: 1 }, { n: 2 }, { n: 3 }], 0, [{ n: 1 }, { n: 2 }, { n: 3 }]],
    [[{ n: 4 }, { outcomes: null }], 1_000, [{ outcomes: null, lines: 2 }]],
    [[{ n: 6 }, { n: 7 }, { n: 8 }], 0, [{ n: 6 }, { n: 7 }]],
  ],
];
Deno.test("throttleInfo() writes some lines, and sums up the rest of each interval", async () => {
  for (const [maxLines, ...steps] of STEPS) {
    using timers = useFakeTimers();
    const lines: unknown[][] = [];
    const limits = { intervalMs: 1_000, maxLines };
    const log = throttleInfo((...line) => lines.push(line), limits);
    for (const [logged, ms, expected] of steps) {
      for (const fields of logged) log("info", "applied", { ...fields });
      await timers.pass(ms);
      const written = expected.map((fields) => ["info", "applied", fields]);
      assertEquals(lines.splice(0), written, JSON.stringify(logged));
    }
  }
});

Deno.test("throttleInfo() keeps messages apart, and lets warnings and errors pass", async () => {
  using timers = useFakeTimers();
  const lines: unknown[][] = [];
  const limits = { intervalMs: 1_000, maxLines: 1 };
  const log = throttleInfo((...line) => lines.push(line), limits);
  const all = (["info", "warn", "error"] as const).flatMap((level) =>
    ["one", "other"].map((message) => [level, message] as const)
  );
  for (let i = 0; i < 2; i++) for (const line of all) log(...line);
  const passed = all.map((line) => [...line, {}]);
  assertEquals(lines.splice(0), [...passed, ...passed.slice(2)]);
  await timers.pass(1_000);
  const sums = ["one", "other"].map((text) => ["info", text, { lines: 1 }]);
  assertEquals(lines, sums);
});
