import fc from "fast-check";
import type { Sql } from "postgres";
import { assertEndState } from "../support/histories/end_state.ts";
import {
  type History,
  history,
  renamed,
} from "../support/histories/history.ts";
import { deliverTogether } from "./sql_delivery.ts";

/**
 * Histories that go together, one event of each per call: about as many as the
 * receiver sends together. They have nothing in common.
 */
const TOGETHER = 50;

/**
 * Delivers random histories over one connection, and compares what the tables
 * hold then with the model.
 *
 * @throws With the smallest history that fails alone, if one does.
 */
export async function checkHistories(
  sql: Sql,
  { seed, runs }: { seed: number; runs: number },
): Promise<void> {
  for (let done = 0; done < runs; done += TOGETHER) {
    const sample = { seed: seed * 1_000 + done, numRuns: TOGETHER };
    try {
      await check(fc.sample(history, sample), sql);
    } catch (failure) {
      await fc.assert(
        fc.asyncProperty(history, (alone) => check([alone], sql)),
        sample,
      );
      throw failure;
    }
  }
}

async function check(histories: History[], sql: Sql): Promise<void> {
  const prefix = crypto.randomUUID().slice(0, 8);
  const own = histories.map((each, i) => renamed(each, `${prefix}_${i}`));
  await deliverTogether(own.map(({ deliveries }) => deliveries), sql);
  await assertEndState({ events: own.flatMap(({ events }) => events) }, sql);
}
