/**
 * Events a second and how long each takes, end to end over real HTTP, in
 * alternating rounds: this receiver, its peer, bare PostgREST calls, and the
 * SQL function straight in Postgres.
 *
 * @module
 */
import postgres from "postgres";
import type { Stack } from "../scripts/local_stack/start_stack.ts";
import { subscriptionEvent } from "../scripts/events/event.ts";
import type { LoadResult } from "./load.ts";
import { servePeer } from "./peer.ts";
import { subscriptionIds, writeRequests } from "./requests.ts";
import { runLoad } from "./run_load.ts";
import { measureSqlCeiling } from "./sql_ceiling.ts";
import { type Spread, spread } from "./statistics.ts";
import {
  bareTarget,
  gatewayTarget,
  peerTarget,
  postgrestTarget,
  receiverTarget,
  type Target,
  wireEvent,
} from "./targets.ts";

const ROUNDS = 3;
const SECONDS = 6;
/** More than any of them can answer in a round. */
const REQUESTS = { 64: 70_000, 1: 9_000 } as const;

/** As many connections as get the most out of two cores. */
const CEILINGS = {
  "the SQL function, 1 a call": { together: 1, connections: 8 },
  "the SQL function, 50 a call": { together: 50, connections: 2 },
};

/** What one target came to at a number of connections. */
export interface TargetResult {
  readonly name: string;
  readonly connections: number;
  readonly perSecond: Spread;
  readonly p50: Spread;
  readonly p99: Spread;
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

/** Runs the rounds. It takes a few minutes. */
export async function measureThroughput(
  stack: Stack,
  folder: string,
): Promise<Throughput> {
  const subscriptions = subscriptionIds(2_000);
  await createSubscriptions(stack.dbUrl, subscriptions);
  await using peer = await servePeer(
    "bench/peers/stripe_sync_engine.ts",
    (await stack.createDatabase("stripe_sync_engine")).url,
  );
  await using bare = await servePeer("bench/peers/bare.ts", "");
  const contests: [Target, 64 | 1][] = [
    [receiverTarget(stack), 64],
    [peerTarget(peer.port), 64],
    [postgrestTarget(stack), 64],
    [bareTarget(bare.port), 64],
    [receiverTarget(stack), 1],
    [postgrestTarget(stack), 1],
    [gatewayTarget(stack), 1],
  ];

  const results = contests.map(() => [] as LoadResult[]);
  const ceilings = new Map<string, number[]>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, [target, connections]] of contests.entries()) {
      const file = `${folder}/requests`;
      await writeRequests(file, {
        shape: target.shape,
        count: REQUESTS[connections],
        run: crypto.randomUUID().slice(0, 8),
        subscriptions,
      });
      const { name, port, repeats = false } = target;
      const plan = { port, repeats, connections, requests: file, offset: 0 };
      const result = await runLoad({ ...plan, seconds: SECONDS });
      results[i]?.push(result);
      console.log(
        `  ${name}, ${connections} connection(s): ` +
          `${Math.round(result.perSecond)} a second, p50 ${
            result.p50.toFixed(2)
          } ms, p99 ${result.p99.toFixed(2)} ms`,
      );
    }
    for (const [name, calls] of Object.entries(CEILINGS)) {
      const ceiling = await measureSqlCeiling(stack.dbUrl, {
        ...calls,
        seconds: SECONDS,
        subscriptions,
      });
      ceilings.set(name, [...ceilings.get(name) ?? [], ceiling]);
      console.log(`  ${name}: ${Math.round(ceiling)} a second`);
    }
  }

  return {
    targets: contests.map(([{ name }, connections], i) => {
      const rounds = results[i] ?? [];
      return {
        name,
        connections,
        perSecond: spread(rounds.map((round) => round.perSecond)),
        p50: spread(rounds.map((round) => round.p50)),
        p99: spread(rounds.map((round) => round.p99)),
        errors: rounds.reduce((sum, round) => sum + round.errors, 0),
        generatorCpu: spread(rounds.map((round) => round.cpu / SECONDS)).median,
      };
    }),
    sqlCeilings: Object.fromEntries(
      [...ceilings].map(([name, rounds]) => [name, spread(rounds)]),
    ),
  };
}

/** So that every update finds its record. */
export async function createSubscriptions(
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
