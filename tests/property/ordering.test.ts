/**
 * Whatever the order in which deliveries arrive, and however often, the tables
 * end as if each event had been handled once, in the order of occurrence.
 *
 * @module
 */
import fc from "fast-check";
import postgres from "postgres";
import { setting } from "../support/test_environment.ts";
import { assertEndState } from "./end_state.ts";
import { type History, history, renamed } from "./history.ts";
import { freshSeed } from "./seed.ts";
import { deliver } from "./sql_delivery.ts";

const FIXED_SEED = 20261121;
const LANES = 4;

Deno.test("apply_billing_events() ends as in order of occurrence, fixed seed", () =>
  checkHistories({ seed: FIXED_SEED, runs: 10_000 }));

Deno.test("apply_billing_events() ends as in order of occurrence, fresh seed", () =>
  checkHistories({ seed: freshSeed(), runs: 2_000 }));

Deno.test("apply_billing_events() ends as in order of occurrence over 16 connections at once", () =>
  checkHistories({ seed: freshSeed(), runs: 500, connections: 16 }));

/** Runs histories in a few lanes side by side, each with a seed of its own. */
async function checkHistories(
  { seed, runs, connections = 1 }: {
    seed: number;
    runs: number;
    connections?: number;
  },
): Promise<void> {
  console.log(
    `${runs} histories, seed ${seed}, ${connections} connection(s) each`,
  );
  const prefix = crypto.randomUUID().slice(0, 8);
  await Promise.all(Array.from({ length: LANES }, async (_, lane) => {
    const sql = postgres(setting("TEST_DATABASE_URL"), {
      max: connections,
      connection: { synchronous_commit: "off" },
    });
    let run = 0;
    try {
      await fc.assert(
        fc.asyncProperty(history, async (generated) => {
          const unique = renamed(generated, `${prefix}_${lane}_${run++}`);
          await deliverAll(unique, { sql, connections });
          await assertEndState(unique, sql);
        }),
        { seed: seed + lane, numRuns: runs / LANES },
      );
    } finally {
      await sql.end();
    }
  }));
}

/** Delivers in the history's order, and what fails again and again, as a provider would. */
async function deliverAll(
  { deliveries }: History,
  { sql, connections }: { sql: postgres.Sql; connections: number },
): Promise<void> {
  let waiting = deliveries;
  while (waiting.length > 0) {
    const failed: typeof deliveries[number][] = [];
    const queue = waiting.values();
    await Promise.all(Array.from({ length: connections }, async () => {
      for (const event of queue) {
        if (!await deliver(event, sql)) failed.push(event);
      }
    }));
    if (failed.length === waiting.length) {
      throw new Error("No delivery gets through any more");
    }
    waiting = failed;
  }
}
