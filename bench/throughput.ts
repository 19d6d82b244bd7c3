/**
 * Events per second and how long each takes, end to end over real HTTP, in
 * alternating rounds: this receiver, its peers, bare PostgREST calls and what
 * there is at least between them and a receiver, and the SQL function straight in
 * Postgres.
 *
 * @module
 */
import postgres from "postgres";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { subscriptionEvent } from "../scripts/events/event.ts";
import { servePeer } from "./peer.ts";
import { servePeers } from "./peers.ts";
import { type PerProcess, perProcess, PROCESSES } from "./processor_time.ts";
import { subscriptionIds } from "./requests.ts";
import { createSubscriptions, type MeasuredLoad, runLoad } from "./run_load.ts";
import { measureSqlCeiling } from "./sql_ceiling.ts";
import { type Spread, spread } from "./statistics.ts";
import {
  gatewayTarget,
  ignoredTarget,
  leastTarget,
  peerTarget,
  postgrestTarget,
  receiverTarget,
  type Target,
  wireEvent,
} from "./targets.ts";

const ROUNDS = 3;
const SECONDS = 5;

/** The numbers of connections, as in the results. */
export const CONNECTIONS = [64, 16, 1] as const;

/** Returns a number of connections, in words. */
export function overConnections(connections: number): string {
  return connections === 1 ? "1 connection" : `${connections} connections`;
}

/** As many connections as get the most out of two cores. */
const CEILINGS = {
  "the SQL function, one event per call": { together: 1, connections: 8 },
  "the SQL function, 50 events per call": { together: 50, connections: 2 },
};

/** What one target came to at a number of connections. */
export interface TargetResult {
  readonly name: string;
  readonly connections: number;
  readonly perSecond: Spread;
  readonly p50: Spread;
  readonly p99: Spread;
  /** In milliseconds of one core per event. */
  readonly processor: PerProcess<Spread>;
  readonly errors: number;
  /** The generator's share of one core. */
  readonly generatorCpu: number;
}

/** Everything end to end. */
export interface Throughput {
  readonly targets: readonly TargetResult[];
  /** The SQL function alone, by how it is called. */
  readonly sqlCeilings: Readonly<Record<string, Spread>>;
}

interface Contest {
  readonly target: Target;
  readonly connections: number;
  readonly rounds: MeasuredLoad[];
}

/** Runs the rounds. It takes about ten minutes. */
export async function measureThroughput(
  stack: Stack,
  folder: string,
): Promise<Throughput> {
  const subscriptions = subscriptionIds(2_000);
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
  // Their events have times of their own.
  const ceilingSubscriptions = subscriptionIds(2_000);
  await applyCreations(stack.dbUrl, ceilingSubscriptions);

  const targets = [
    receiver,
    ...peers.targets,
    postgrestTarget(stack),
    gatewayTarget(stack),
    leastTarget(stack, least.port),
    ignoredTarget(stack),
  ];
  const random: Target = {
    ...receiver,
    name: "this receiver, random event IDs",
    ids: "random",
  };
  // Answers at once: what the generator itself can do.
  const nothing = peerTarget(bare.port, {
    name: "bare server",
    records: undefined,
  });
  const contests = [
    ...CONNECTIONS.flatMap((connections) =>
      targets.map((target) => ({ target, connections }))
    ),
    { target: random, connections: 64 },
    { target: nothing, connections: 64 },
  ].map((contest): Contest => ({ ...contest, rounds: [] }));

  const ceilings = new Map<string, number[]>();
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`  Round ${round} of ${ROUNDS}`);
    for (const { target, connections, rounds } of contests) {
      const result = await runLoad(target, {
        connections,
        subscriptions,
        folder,
        seconds: SECONDS,
      });
      rounds.push(result);
      console.log(
        `  ${target.name}, ${overConnections(connections)}: ${lineOf(result)}`,
      );
    }
    for (const [name, calls] of Object.entries(CEILINGS)) {
      const ceiling = await measureSqlCeiling(stack.dbUrl, {
        ...calls,
        seconds: SECONDS,
        subscriptions: ceilingSubscriptions,
      });
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

function lineOf(
  { perSecond, p50, p99, processor, errors }: MeasuredLoad,
): string {
  return [
    `${Math.round(perSecond)} per second`,
    `p50 ${p50.toFixed(2)} ms`,
    `p99 ${p99.toFixed(2)} ms`,
    `processor ${
      PROCESSES.map((name) => processor[name].toFixed(2)).join(" + ")
    } ms`,
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
    generatorCpu: spread(rounds.map((round) => round.cpu / SECONDS)).median,
  };
}

async function applyCreations(
  databaseUrl: string,
  subscriptions: readonly string[],
): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 });
  const events = subscriptions.map((subscription) =>
    wireEvent(subscriptionEvent("customer.subscription.created", {
      subscription,
      created: 1_750_000_000,
    }))
  );
  try {
    await sql`
      select count(*)
      from public.apply_billing_events(${sql.json(events as never)})`;
  } finally {
    await sql.end();
  }
}
