/**
 * The receiver, over a network that fails on purpose: nothing is lost and
 * nothing is applied twice.
 *
 * @module
 */
import { assert } from "@std/assert";
import fc from "fast-check";
import { freshSeed, seededRandom } from "../support/random.ts";
import { history, renamed } from "../support/histories/history.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import { connect } from "../support/tables.ts";
import { testReceiver } from "../support/test_receiver.ts";
import { faultyFetch } from "./faulty_fetch.ts";
import { deliverAll, postTo } from "../support/histories/deliver_all.ts";

const HISTORIES = 400;

Deno.test("no fault between receiver and database loses an event or applies it twice", async () => {
  const seed = freshSeed();
  const prefix = crypto.randomUUID().slice(0, 8);
  const histories = fc.sample(history, { seed, numRuns: HISTORIES })
    .map((generated, i) => renamed(generated, `${prefix}_${i}`));
  const { fetch, counts } = faultyFetch(seededRandom(seed));
  const receiver = await testReceiver({ fetch });

  const figures = await deliverAll(
    histories.flatMap(({ deliveries }) => deliveries),
    postTo(receiver),
  );

  const sql = connect();
  try {
    await assertEndState(
      { events: histories.flatMap(({ events }) => events) },
      sql,
    );
  } finally {
    await sql.end();
  }
  assert(figures.deliveries >= 5_000, `${figures.deliveries} deliveries`);
  console.log(
    `${figures.deliveries} deliveries, seed ${seed}: 0 lost, 0 applied twice; ` +
      [...counts].map(([fault, count]) => `${count} ${fault}`).join(", "),
  );
});
