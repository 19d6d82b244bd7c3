/**
 * In whatever order and however often deliveries arrive, the tables end as if
 * each event had been handled once, in the order of occurrence.
 *
 * @module
 */
import fc from "fast-check";
import postgres from "postgres";
import { setting } from "../support/test_environment.ts";
import { checkHistories } from "./check_histories.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import { history, renamed } from "../support/histories/history.ts";
import { freshSeed } from "../support/random.ts";
import { deliver } from "./sql_delivery.ts";

const FIXED_SEED = 20261121;
const LANES = 2;
const CONNECTIONS = 16;

Deno.test("billing_apply_events() ends in the state of the order of occurrence, fixed seed", () =>
  checkInLanes({ seed: FIXED_SEED, runs: 1_500 }));

Deno.test("billing_apply_events() ends in the state of the order of occurrence, fresh seed", () =>
  checkInLanes({ seed: freshSeed(), runs: 1_500 }));

/** Checks histories in a few lanes side by side, each with a seed of its own. */
async function checkInLanes(
  { seed, runs }: { seed: number; runs: number },
): Promise<void> {
  console.log(`${runs} histories, seed ${seed}`);
  await Promise.all(Array.from({ length: LANES }, async (_, lane) => {
    const sql = connect(1);
    try {
      await checkHistories(sql, { seed: seed + lane, runs: runs / LANES });
    } finally {
      await sql.end();
    }
  }));
}

Deno.test("billing_apply_events() ends in the state of the order of occurrence over 16 connections at once", async () => {
  const seed = freshSeed();
  const prefix = crypto.randomUUID().slice(0, 8);
  console.log(`seed ${seed}`);
  const sql = connect(CONNECTIONS);
  let run = 0;
  try {
    await fc.assert(
      fc.asyncProperty(history, async (generated) => {
        const own = renamed(generated, `${prefix}_${run++}`);
        let waiting = own.deliveries;
        while (waiting.length > 0) {
          const failed: typeof waiting[number][] = [];
          const queue = waiting.values();
          await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
            for (const event of queue) {
              if (!await deliver(event, sql)) failed.push(event);
            }
          }));
          if (failed.length === waiting.length) {
            throw new Error("No delivery gets through any more");
          }
          waiting = failed;
        }
        await assertEndState(own, sql);
      }),
      { seed, numRuns: 200 },
    );
  } finally {
    await sql.end();
  }
});

function connect(max: number): postgres.Sql {
  return postgres(setting("TEST_DATABASE_URL"), {
    max,
    connection: { synchronous_commit: "off" },
  });
}
