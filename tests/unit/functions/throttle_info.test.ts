import { assertEquals } from "@std/assert";
import { throttleInfo } from "../../../supabase/functions/billing-webhook/throttle_info.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";

/** Fields of lines that are logged, the time that passes then, and what is written. */
interface Step {
  logged?: object[];
  ms?: number;
  written?: object[];
}

const ONE_LINE: Step[] = [
  { logged: [{ n: 1 }], written: [{ n: 1 }] },
  // The rest is summed up at the end of the interval.
  {
    logged: [{ outcomes: { a: 2 } }, { n: 3, outcomes: { b: 1, a: 3 } }],
    ms: 999,
  },
  { ms: 1, written: [{ n: 3, outcomes: { a: 5, b: 1 }, lines: 2 }] },
  // The sum counts as a line of the next interval.
  { logged: [{ n: 4 }], ms: 1_000, written: [{ n: 4, lines: 1 }] },
  // After an idle interval a line passes at once, and nothing follows.
  { ms: 1_000 },
  { logged: [{ n: 5 }], written: [{ n: 5 }] },
  { ms: 9_000 },
  { logged: [{ n: 6 }], written: [{ n: 6 }] },
];
const THREE_LINES: Step[] = [
  {
    logged: [{ n: 1 }, { n: 2 }, { n: 3 }],
    written: [{ n: 1 }, { n: 2 }, { n: 3 }],
  },
  {
    logged: [{ n: 4 }, { outcomes: null }],
    ms: 1_000,
    written: [{ outcomes: null, lines: 2 }],
  },
  { logged: [{ n: 6 }, { n: 7 }, { n: 8 }], written: [{ n: 6 }, { n: 7 }] },
];
Deno.test("throttleInfo() sums up the rest of each interval by message", async () => {
  for (const [maxLines, steps] of [[1, ONE_LINE], [3, THREE_LINES]] as const) {
    using timers = useFakeTimers();
    const lines: unknown[][] = [];
    const limits = { intervalMs: 1_000, maxLines };
    const log = throttleInfo((...line) => lines.push(line), limits);

    for (const { logged = [], ms = 0, written = [] } of steps) {
      for (const fields of logged) log("info", "applied", { ...fields });

      // Written at once, whatever is left out of the others.
      log("warn", "applied");
      log("info", `${ms} ${logged.length}`);
      assertEquals(lines.splice(-2).map(([level]) => level), ["warn", "info"]);

      await timers.pass(ms);
      const expected = written.map((fields) => ["info", "applied", fields]);
      assertEquals(lines.splice(0), expected, JSON.stringify(logged));
    }
  }
});
