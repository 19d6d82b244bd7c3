/**
 * PostgREST and Postgres are killed in the middle of a run and started again:
 * nothing is lost and nothing is applied twice.
 *
 * @module
 */
import { assert } from "@std/assert";
import fc from "fast-check";
import { assertEndState } from "../support/histories/end_state.ts";
import { history, renamed } from "../support/histories/history.ts";
import { freshSeed } from "../support/random.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { deliverAll, postOver } from "../support/histories/deliver_all.ts";

const HISTORIES = 40;
/** The delivery at which the service is killed. */
const KILLED_AT = 200;

for (const service of ["postgrest", "postgres"] as const) {
  Deno.test(`no event is lost or applied twice if ${service} is killed in the middle of a run`, async () => {
    const seed = freshSeed();
    await using own = await startOwnStack({ fsync: true });
    const { stack, sql } = own;
    const histories = fc.sample(history, { seed, numRuns: HISTORIES })
      .map((generated, i) => renamed(generated, String(i)));
    let restarted: Promise<void> | undefined;
    const figures = await deliverAll(
      histories.flatMap(({ deliveries }) => deliveries),
      postOver(`${stack.urls.webhookProcess}/billing-webhook`),
      {
        onDelivery: (number) => {
          if (number === KILLED_AT) {
            restarted = stack[service].kill().then(() =>
              stack[service].start()
            );
          }
        },
      },
    );
    await restarted;

    assert(restarted !== undefined && figures.retries > 0);
    await assertEndState(
      { events: histories.flatMap(({ events }) => events) },
      sql,
    );
    console.log(
      `${figures.deliveries} deliveries, ${figures.retries} retried, seed ${seed}: 0 lost, 0 applied twice`,
    );
  });
}
