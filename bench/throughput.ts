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
import {
  createSubscriptions,
  type Load,
  type MeasuredLoad,
  prepareLoad,
} from "./run_load.ts";
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

/** The first answers of a generator are slow. */
const WARM_UP_SECONDS = 1;

/**
 * While a server is idle, V8 may let go of its compiled code. Under load, it takes
 * some eight seconds until the code is as fast as it was (docs/scaling.md). So a
 * target works for a while before it is measured, one load right after the other.
 */
const TARGET_WARM_UP: Pick<Load, "connections" | "seconds" | "perSecond"> = {
  connections: MOST_CONNECTIONS,
  seconds: 10,
  // Only because all requests have to be built beforehand.
  perSecond: 4_000,
};

/** What is measured of a target, one after the other. */
interface Visit {
  readonly target: Target;
  readonly contests: readonly Contest[];
}

interface Contest {
  readonly connections: number;
  readonly rounds: MeasuredLoad[];
}

/** Runs the rounds. It takes about 45 minutes. */
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
  const visits = [
    ...targets.map((target) => visitOf(target, CONNECTIONS)),
    visitOf(random, [MOST_CONNECTIONS]),
    visitOf(nothing, [MOST_CONNECTIONS]),
  ];

  const ceilings = new Map<string, number[]>();
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`  Round ${round} of ${ROUNDS}`);
    for (const visit of shuffled(visits)) {
      await reconnect(stack);
      await measureOnce(visit, { subscriptions, folder });
    }
    for (const [name, calls] of Object.entries(CEILINGS)) {
      const ceiling = await measureCeiling(calls, { seconds: SECONDS });
      ceilings.set(name, [...ceilings.get(name) ?? [], ceiling]);
      console.log(`  ${name}: ${Math.round(ceiling)} per second`);
    }
  }
  return {
    targets: visits.flatMap(resultsOf),
    sqlCeilings: Object.fromEntries(
      [...ceilings].map(([name, rounds]) => [name, spread(rounds)]),
    ),
  };
}

function visitOf(target: Target, connections: readonly number[]): Visit {
  return {
    target,
    contests: connections.map((connections) => ({ connections, rounds: [] })),
  };
}

/**
 * Starts PostgREST anew. A target that calls it over many connections leaves it
 * with ten to the database. With these, each call of the next target takes
 * Postgres 0.3 ms more, even if its calls come one at a time.
 */
async function reconnect({ postgrest }: Stack): Promise<void> {
  await postgrest.stop();
  await postgrest.start();
}

/** Warms up a target, and adds a round to each of its contests. */
async function measureOnce(
  { target, contests }: Visit,
  load: Pick<Load, "subscriptions" | "folder">,
): Promise<void> {
  await using _changed = await target.change?.();
  const warmUp = await prepareLoad(target, { ...load, ...TARGET_WARM_UP });
  const prepared = [];
  for (const contest of shuffled(contests)) {
    const send = await prepareLoad(target, {
      ...load,
      connections: contest.connections,
      warmUpSeconds: WARM_UP_SECONDS,
      seconds: SECONDS,
    });
    prepared.push({ contest, send });
  }
  const { errors } = await warmUp();
  if (errors > 0) {
    throw new Error(`Cannot measure: ${target.name} failed ${errors} events`);
  }
  for (const { contest: { connections, rounds }, send } of prepared) {
    const result = await send();
    rounds.push(result);
    console.log(
      `  ${target.name}, ${overConnections(connections)}: ${lineOf(result)}`,
    );
  }
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

function resultsOf({ target, contests }: Visit): TargetResult[] {
  return contests.map(({ connections, rounds }) => ({
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
  }));
}
