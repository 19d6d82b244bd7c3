/**
 * Events per second and how long each takes, end to end over real HTTP, in rounds
 * of random order: this receiver, its peers, and the least that a receiver can do.
 */
import postgres from "postgres";
import { createCommand } from "../scripts/common/create_command.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import type { LoadPlan, LoadResult } from "./load.ts";
import {
  median,
  PROCESSES,
  type ProcessorTimes,
  processorTimes,
  show,
  shuffled,
  type Spread,
  spread,
  table,
} from "./measure.ts";
import {
  type RequestOptions,
  subscriptionIds,
  writeRequests,
} from "./requests.ts";
import {
  PEER_NAMES,
  RECEIVER,
  receiverTarget,
  servePeers,
  type Target,
} from "./servers.ts";

/** The most connections that a target is measured over. */
export const MOST_CONNECTIONS = 64;

/** The numbers of connections, as in the results. */
export const CONNECTIONS = [MOST_CONNECTIONS, 16, 1] as const;

/** A single round may be a third too high or too low. */
const ROUNDS = 7;
const SECONDS = 5;

/** The first answers of a generator are slow. */
const WARM_UP_SECONDS = 1;

/**
 * While a server is idle, V8 may let go of its compiled code. Under load, it takes
 * some eight seconds until the code is as fast as it was.
 */
const TARGET_WARM_UP = {
  connections: MOST_CONNECTIONS,
  seconds: 10,
  // Only because all requests have to be built beforehand.
  perSecond: 4_000,
};

/** More answers per second than one connection ever gets. */
const MOST_PER_CONNECTION = 3_000;

/** What a target came to at a number of connections. */
export interface TargetResult {
  readonly name: string;
  readonly connections: number;
  readonly perSecond: Spread;
  readonly p50: Spread;
  readonly p99: Spread;
  /** Milliseconds of one core per event, medians. */
  readonly processor: ProcessorTimes;
  readonly errors: number;
}

interface Load
  extends
    Pick<LoadPlan, "connections" | "seconds" | "warmUpSeconds" | "perSecond"> {
  readonly subscriptions: readonly string[];
  readonly type?: RequestOptions["type"];
  /** For files. */
  readonly folder: string;
}

interface MeasuredLoad extends LoadResult {
  /** Milliseconds of one core per answer, with the warm-up. */
  readonly processor: ProcessorTimes;
}

/** Runs the rounds. It takes about half an hour. */
export async function measureThroughput(
  stack: Stack,
  folder: string,
): Promise<TargetResult[]> {
  const subscriptions = subscriptionIds();
  await using peers = await servePeers(stack);
  const targets = [receiverTarget(stack), ...peers.targets];
  for (const target of targets) {
    // The last one's records are the receiver's.
    if (target !== targets.at(-1)) {
      await createSubscriptions(target, { subscriptions, folder });
    }
  }
  const visits = targets.map((target) => ({
    target,
    contests: CONNECTIONS.map((connections) => ({
      connections,
      rounds: [] as MeasuredLoad[],
    })),
  }));
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`  Round ${round} of ${ROUNDS}`);
    for (const { target, contests } of shuffled(visits)) {
      // With the database connections that the target before it left, each call
      // takes Postgres 0.3 ms more.
      await stack.postgrest.stop();
      await stack.postgrest.start();
      const load = { subscriptions, folder };
      const warmUp = await prepareLoad(target, { ...load, ...TARGET_WARM_UP });
      const prepared = [];
      for (const { connections, rounds } of shuffled(contests)) {
        const send = await prepareLoad(target, {
          ...load,
          connections,
          warmUpSeconds: WARM_UP_SECONDS,
          seconds: SECONDS,
        });
        prepared.push({ connections, rounds, send });
      }
      await warmUp();
      for (const { connections, rounds, send } of prepared) {
        const result = await send();
        rounds.push(result);
        const { perSecond, p50, p99 } = result;
        console.log(
          `  ${target.name}, ${overConnections(connections)}: ${
            show(perSecond, 0)
          } per second, p50 ${show(p50, 2)} ms, p99 ${show(p99, 2)} ms`,
        );
      }
    }
  }
  return visits.flatMap(({ target, contests }) =>
    contests.map(({ connections, rounds }) => ({
      name: target.name,
      connections,
      perSecond: spread(rounds.map((round) => round.perSecond)),
      p50: spread(rounds.map((round) => round.p50)),
      p99: spread(rounds.map((round) => round.p99)),
      processor: perProcess((name) =>
        median(rounds.map(({ processor }) => processor[name]))
      ),
      errors: rounds.reduce((sum, round) => sum + round.errors, 0),
    }))
  );
}

/** Returns the results as Markdown. */
export function throughputSection(results: readonly TargetResult[]): string {
  const find = (name: string, connections: number) =>
    results.find((result) =>
      result.name === name && result.connections === connections
    )!;
  const names = [...new Set(results.map(({ name }) => name))];
  const errors = results.reduce((sum, result) => sum + result.errors, 0);
  return `## End to end

Subscription updates of 3 kB, each a new event with an ID as Stripe makes them,
signed and verified: events per second (range), and the milliseconds that half and
99 % of the deliveries take at most. The medians of ${ROUNDS} rounds of random order,
each after ten seconds of load. The database showed that every event was applied. The
peers run as their packages have them, and never call Stripe. Deliveries that failed:
${errors}.

${
    table(
      ["What", ...CONNECTIONS.map(overConnections)],
      names.map((name) => [
        name,
        ...CONNECTIONS.map((connections) => {
          const { perSecond, p50, p99 } = find(name, connections);
          return `${show(perSecond, 0)}; ${show(p50.median, 1)}, ${
            show(p99.median, 1)
          }`;
        }),
      ]),
    )
  }

What an event costs this receiver, in milliseconds of one core:

${
    table(
      ["Over", ...PROCESSES],
      CONNECTIONS.map((connections) => [
        overConnections(connections),
        ...PROCESSES.map((process) =>
          show(find(RECEIVER, connections).processor[process], 2)
        ),
      ]),
    )
  }`;
}

/** Returns a number of connections, in words. */
export function overConnections(connections: number): string {
  return connections === 1 ? "1 connection" : `${connections} connections`;
}

/** The results that the chart shows: this receiver and its peers. */
export function charted(results: readonly TargetResult[]) {
  return CONNECTIONS.map((connections) => ({
    heading: overConnections(connections),
    bars: [RECEIVER, ...PEER_NAMES].map((name) => {
      const { perSecond } = results.find((result) =>
        result.name === name && result.connections === connections
      )!;
      return { name, ...perSecond };
    }),
  }));
}

/**
 * Builds new events for a target, which takes seconds.
 *
 * @returns what sends them, once, and checks in its database that it has applied
 *   each of them. Updates have to be sent in the order in which they were built:
 *   others are stale
 */
export async function prepareLoad(
  target: Target,
  { connections, seconds, warmUpSeconds = 0, perSecond, ...load }: Load,
): Promise<() => Promise<MeasuredLoad>> {
  const { subscriptions, type, folder } = load;
  const { port, shape } = target;
  const requests = await Deno.makeTempFile({ dir: folder });
  const most = Math.min(
    perSecond === undefined ? target.most : perSecond * 1.1,
    connections * MOST_PER_CONNECTION,
  );
  const start = await writeRequests(requests, {
    shape,
    count: seconds === undefined
      ? subscriptions.length
      : Math.ceil(most * (warmUpSeconds + seconds)) + connections,
    subscriptions,
    ...(type && { type }),
  });

  return async function send() {
    const before = await processorTimes();
    const result = await generate({
      ...{ port, connections, requests, warmUpSeconds },
      ...(seconds !== undefined && { seconds }),
      ...(perSecond !== undefined && { perSecond }),
    });
    const after = await processorTimes();
    // If possible before the system writes it to the disk.
    await Deno.remove(requests);
    // Which one failed is not known.
    if (result.errors === 0) {
      const { answers: count } = result;
      await checkApplied(target, { subscriptions, start, count });
    }
    return {
      ...result,
      processor: perProcess((name) =>
        (after[name] - before[name]) * 1000 / result.answers
      ),
    };
  };
}

/** Lets a target create the subscriptions that the other events are about. */
export async function createSubscriptions(
  target: Target,
  options: Pick<Load, "subscriptions" | "folder">,
): Promise<void> {
  const type = "customer.subscription.created";
  const send = await prepareLoad(target, { ...options, type, connections: 8 });
  const { errors } = await send();
  if (errors > 0) {
    throw new Error(
      `Cannot measure: ${target.name} refused ${errors} of ${type}`,
    );
  }
}

/** The load generator is a process of its own. */
async function generate(plan: LoadPlan): Promise<LoadResult> {
  const { success, stdout } = await createCommand(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "bench/load.ts", JSON.stringify(plan)],
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("Cannot measure: the load generator failed");
  return JSON.parse(new TextDecoder().decode(stdout));
}

/**
 * Checks that the record of each subscription is as of the newest event that was
 * sent about it.
 *
 * @param options.start the time of the first event, in Unix seconds
 * @param options.count how many events were sent, in the order of their file
 * @throws {Error} if one is not
 */
async function checkApplied(
  { name, databaseUrl, query }: Target,
  { subscriptions, start, count }: {
    subscriptions: readonly string[];
    start: number;
    count: number;
  },
): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 });
  try {
    const rows = await sql.unsafe<{ id: string; at: Date | null }[]>(query);
    const times = new Map(rows.map(({ id, at }) => [id, at?.getTime()]));
    const [missed, ...others] = subscriptions.slice(0, count).filter(
      (id, i) => {
        const rounds = Math.floor((count - 1 - i) / subscriptions.length);
        return times.get(id) !== (start + rounds) * 1000;
      },
    );
    if (missed === undefined) return;
    throw new Error(
      `Cannot measure: ${name} answered 200, but ${missed} and ${others.length} others are not as of their newest event`,
    );
  } finally {
    await sql.end();
  }
}

function perProcess(figure: (name: keyof ProcessorTimes) => number) {
  const figures = PROCESSES.map((name) => [name, figure(name)]);
  return Object.fromEntries(figures) as ProcessorTimes;
}
