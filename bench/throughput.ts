/**
 * Events per second and how long each takes, end to end over real HTTP, in
 * rounds of random order: this receiver, its peers, bare PostgREST calls and what
 * there is at least between them and a receiver, and the SQL function straight in
 * Postgres.
 *
 * @module
 */
import type { Stack } from "../scripts/local_stack/stack.ts";
import { BARE_SERVER, RANDOM_IDS } from "./names.ts";
import { servePeer } from "./peer.ts";
import { servePeers } from "./peers.ts";
import { perProcess, PROCESSES } from "./processor_time.ts";
import { subscriptionIds } from "./requests.ts";
import { createSubscriptions, type MeasuredLoad, runLoad } from "./run_load.ts";
import { CEILINGS, prepareSqlCeiling } from "./sql_ceiling.ts";
import { spread } from "./statistics.ts";
import {
  gatewayTarget,
  ignoredTarget,
  leastSqlTarget,
  leastTarget,
  peerTarget,
  postgrestTarget,
  receiverTarget,
  type Target,
} from "./targets.ts";
import {
  CONNECTIONS,
  MOST_CONNECTIONS,
  overConnections,
  ROUNDS,
  type TargetResult,
  type Throughput,
} from "./throughput_results.ts";

const SECONDS = 5;
/**
 * While a server is idle, its code and its heap are let go, and making them again
 * took a quarter of its processor time in a round. The first answers of a
 * generator are slow as well.
 */
const WARM_UP_SECONDS = 1;

interface Contest {
  readonly target: Target;
  readonly connections: number;
  readonly rounds: MeasuredLoad[];
}

/** Runs the rounds. It takes about half an hour. */
export async function measureThroughput(
  stack: Stack,
  folder: string,
): Promise<Throughput> {
  const subscriptions = subscriptionIds();
  await using peers = await servePeers(stack);
  await using bare = await servePeer({
    entry: "bench/bare_server.ts",
    command: "serve",
  });
  await using least = await servePeer({
    entry: "bench/least_function.ts",
    command: "serve",
    env: {
      SUPABASE_URL: stack.urls.api,
      SUPABASE_SECRET_KEY: stack.keys.secret,
    },
  });
  const receiver = receiverTarget(stack);
  for (const target of [receiver, ...peers.targets]) {
    await createSubscriptions(target, { subscriptions, folder });
  }
  const measureCeiling = await prepareSqlCeiling(stack.dbUrl);

  const targets = [
    receiver,
    ...peers.targets,
    postgrestTarget(stack),
    gatewayTarget(stack),
    leastTarget(stack, least.port),
    ignoredTarget(stack),
    leastSqlTarget(stack),
  ];
  const random: Target = {
    ...receiver,
    name: RANDOM_IDS,
    ids: "random",
  };
  // Answers at once: what the generator itself can do.
  const nothing = peerTarget(bare.port, {
    name: BARE_SERVER,
    records: undefined,
  });
  const contests = [
    ...CONNECTIONS.flatMap((connections) =>
      targets.map((target) => ({ target, connections }))
    ),
    { target: random, connections: MOST_CONNECTIONS },
    { target: nothing, connections: MOST_CONNECTIONS },
  ].map((contest): Contest => ({ ...contest, rounds: [] }));

  const ceilings = new Map<string, number[]>();
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`  Round ${round} of ${ROUNDS}`);
    for (const { target, connections, rounds } of shuffled(contests)) {
      await using _changed = await target.change?.();
      const result = await runLoad(target, {
        ...{ connections, subscriptions, folder },
        warmUpSeconds: WARM_UP_SECONDS,
        seconds: SECONDS,
      });
      rounds.push(result);
      console.log(
        `  ${target.name}, ${overConnections(connections)}: ${lineOf(result)}`,
      );
    }
    for (const [name, calls] of Object.entries(CEILINGS)) {
      const ceiling = await measureCeiling(calls, { seconds: SECONDS });
      ceilings.set(name, [...ceilings.get(name) ?? [], ceiling]);
      console.log(`  ${name}: ${Math.round(ceiling)} per second`);
    }
  }
  return {
    targets: contests.map(resultOf),
    sqlCeilings: Object.fromEntries(
      [...ceilings].map(([name, rounds]) => [name, spread(rounds)]),
    ),
  };
}

/** What ran before matters: Postgres still writes what it left. */
function shuffled<T>(values: readonly T[]): T[] {
  return values.map((value) => ({ value, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ value }) => value);
}

function lineOf(
  { perSecond, p50, p99, processor, stolen, errors }: MeasuredLoad,
): string {
  return [
    `${Math.round(perSecond)} per second`,
    `p50 ${p50.toFixed(2)} ms`,
    `p99 ${p99.toFixed(2)} ms`,
    `processor ${
      PROCESSES.map((name) => processor[name].toFixed(2)).join(" + ")
    } ms`,
    `${(stolen * 100).toFixed(1)} % stolen`,
    ...errors > 0 ? [`${errors} errors`] : [],
  ].join(", ");
}

function resultOf({ target, connections, rounds }: Contest): TargetResult {
  return {
    name: target.name,
    connections,
    perSecond: spread(rounds.map((round) => round.perSecond)),
    p50: spread(rounds.map((round) => round.p50)),
    p99: spread(rounds.map((round) => round.p99)),
    processor: perProcess((name) =>
      spread(rounds.map((round) => round.processor[name]))
    ),
    errors: rounds.reduce((sum, round) => sum + round.errors, 0),
    generatorCpu:
      spread(rounds.map((round) => round.cpu / (WARM_UP_SECONDS + SECONDS)))
        .median,
    stolen: spread(rounds.map((round) => round.stolen)),
  };
}
