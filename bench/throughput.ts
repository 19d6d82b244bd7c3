/**
 * Measures this receiver, its peers and its parts end to end over real HTTP, in rounds of
 * random order: events per second, their latency and their processor time.
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { createCommand } from "../scripts/common/processes.ts";
import { withDatabase } from "../scripts/local_stack/databases.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { barChart } from "./chart.ts";
import type { LoadPlan, Slice } from "./load.ts";
import {
  median,
  type Options,
  PROCESSES,
  processorTimes,
  show,
  shuffled,
  spread,
  table,
} from "./measure.ts";
import {
  ending,
  receiverTarget,
  serveTarget,
  type Target,
  type TargetName,
  TARGETS,
} from "./servers.ts";

/** How many subscriptions the events are about. */
export const SUBSCRIPTIONS = 2_000;

/** The servers to compare. */
export const PEERS: readonly TargetName[] = [
  "receiver",
  "byHand",
  "engine",
  "verify",
];

/** Servers that each do one thing more than the one before. */
const STEPS = ["bare", "verify", "ignored", "receiver"] as const;

/** The result of a load. */
interface Measured extends Slice {
  readonly name: TargetName;
  readonly connections: number;
  /** Milliseconds of one core per event, in the order of the processes. */
  readonly processor: readonly number[];
}

/** Compares this receiver with its peers. */
export async function throughput(
  stack: Stack,
  options: Options,
): Promise<string> {
  const names = options.peers as TargetName[];
  const select = await measureTargets(stack, names, options);

  const rows = options.connections.flatMap((connections) => {
    const [ours = []] = select(connections, ["receiver"]);
    return select(connections, names).map((rounds) => [
      `${connections}`,
      ...comparison(rounds, ours),
    ]);
  });

  if (options.chart) {
    const groups = options.connections.map((connections) => ({
      heading: `Connections: ${connections}`,
      bars: select(connections, names).map((rounds) => ({
        title: TARGETS[rounds[0]!.name].title,
        value: middle(rounds, "perSecond"),
      })),
    }));
    const title = "Subscription updates per second, over HTTP";
    await Deno.writeTextFile(options.chart, barChart(title, groups));
  }

  const head = [
    "Connections",
    "Server",
    "Per second",
    "p50",
    "p99",
    "Times",
    "p99",
  ];
  return `
Subscription updates of 3 kB, each a new event, signed and verified: events per
second (range of the rounds), and the milliseconds that half and 99 % of them take
at most; then this receiver's events per second and p99, as multiples of the server's.
The database showed that every event was applied.

${table(head, rows)}`;
}

/** Returns the cells of a server's rounds, beside those of this receiver. */
function comparison(
  rounds: readonly Measured[],
  ours: readonly Measured[],
): string[] {
  const milliseconds = (value: number) => show(value, value < 99 ? 1 : 0);
  const ratio = (figure: Figure) =>
    middle(ours, figure) / middle(rounds, figure);
  return [
    TARGETS[rounds[0]!.name].title,
    show(spread(rounds.map(({ perSecond }) => perSecond))),
    milliseconds(middle(rounds, "p50")),
    milliseconds(middle(rounds, "p99")),
    show(ratio("perSecond"), 2),
    show(ratio("p99"), 2),
  ];
}

type Figure = "p50" | "p99" | "perSecond";

function middle(rounds: readonly Measured[], figure: Figure): number {
  return median(rounds.map((round) => round[figure]));
}

/** Shows where a delivery's processor time goes. */
export async function parts(stack: Stack, options: Options): Promise<string> {
  const select = await measureTargets(stack, STEPS, options);
  const rows = options.connections.flatMap((connections) => {
    const times = select(connections, STEPS).map((rounds) =>
      PROCESSES.map((_, i) =>
        median(rounds.map(({ processor }) => processor[i]!))
      )
    );
    return STEPS.map((name, i) => [
      `${connections}`,
      TARGETS[name].title,
      show(times[i]![0]! - (times[i - 1]?.[0] ?? 0), 3),
      ...times[i]!.map((time) => show(time, 3)),
    ]);
  });

  return `
Milliseconds of one core per event, by process. "More" is the receiver's time beyond
that of the server above: for HTTP; the signature; parsing and the log; and the call.
The worker is not counted.

${table(["Connections", "Server", "More", ...PROCESSES], rows)}`;
}

/**
 * Measures each target in each round, over each number of connections.
 *
 * @returns a function that selects the results for some connections and targets: for each
 *   target, those of its rounds
 */
async function measureTargets(
  stack: Stack,
  names: readonly TargetName[],
  { rounds, seconds, connections }: Options,
) {
  await using started = new AsyncDisposableStack();
  const targets: (readonly [TargetName, Target])[] = [];
  for (const name of names) {
    targets.push([name, await serveTarget(stack, { name, started })]);
  }
  // The other targets create a subscription with the first event about it.
  await createSubscriptions(receiverTarget(stack));

  const measured: Measured[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const [name, target] of shuffled(targets)) {
      // With database connections that an earlier target used, each call takes
      // Postgres 0.3 ms more.
      await restartPostgrest(stack);
      const warmUp = await prepareLoad(target, warmUpLoad(seconds));
      const prepared = [];
      for (const count of shuffled(connections)) {
        const send = await prepareMeasured(target, count, seconds);
        prepared.push({ connections: count, send });
      }
      await warmUp();

      for (const { connections, send } of prepared) {
        const { processor, slice } = await measureLoad(send);
        measured.push({ ...slice, name, connections, processor });
        const { perSecond, p50, p99, errors } = slice;
        const figures = [perSecond, p50, p99].map((figure) => show(figure, 1));
        const failed = errors > 0 ? `, FAILED: ${errors}` : "";
        console.log(
          `  ${round}/${rounds} ${target.title}, ${connections}: ${figures}${failed}`,
        );
      }
    }
  }

  return (connections: number, names: readonly TargetName[]) =>
    names.map((name) =>
      measured.filter((result) =>
        result.name === name && result.connections === connections
      )
    );
}

/** Prepares a load of one slice, with about as many requests as the target can handle. */
async function prepareMeasured(
  target: Target,
  connections: number,
  seconds: number,
) {
  const [most, each] = target.query ? [8_000, 400] : [20_000, 4_000];
  return await prepareLoad(target, {
    connections,
    seconds,
    warmUpSeconds: 1,
    built: Math.min(most, connections * each) * (seconds + 1),
  });
}

/** Sends a load, and measures the processor time of each process per event. */
async function measureLoad(send: Awaited<ReturnType<typeof prepareLoad>>) {
  const before = await processorTimes();
  const { slices: [slice], answers } = await send();
  const after = await processorTimes();
  const processor = PROCESSES
    .map((name) => (after[name] - before[name]) * 1000 / answers);
  return { processor, slice: slice! };
}

/**
 * Returns a load that warms a server up. While a server is idle, V8 may discard its
 * compiled code; under load, it takes some eight seconds to compile it again.
 */
export function warmUpLoad(seconds: number) {
  return { connections: 64, seconds: 2 * seconds, perSecond: 4_000 };
}

export async function restartPostgrest({ postgrest }: Stack): Promise<void> {
  await postgrest.stop();
  await postgrest.start();
}

/** The time of the first event of the next load, which is later than all before. */
let nextStart = Math.floor(Date.now() / 1000) - 90 * 86_400;
const LOAD_SECONDS = 10_000;

/**
 * Builds the events for a target, which takes seconds.
 *
 * @returns a function that sends them, once, and checks in the target's database that
 *   each was applied. Send loads in the order in which they were prepared: otherwise,
 *   events are stale
 */
export async function prepareLoad(
  target: Target,
  load: Partial<LoadPlan> & Pick<LoadPlan, "connections">,
) {
  const plan: LoadPlan = {
    ports: target.ports,
    stream: target.stream ?? "updates",
    subscriptions: SUBSCRIPTIONS,
    start: nextStart,
    ...load,
  };
  nextStart += LOAD_SECONDS;

  const child = createCommand(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "bench/load.ts", JSON.stringify(plan)],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
    signal: ending.signal,
  }).spawn();
  const lines = createInterface(Readable.fromWeb(child.stdout))
    [Symbol.asyncIterator]();
  await lines.next();

  return async function send(onSlice: (slice: Slice) => unknown = () => {}) {
    await child.stdin.getWriter().write(new Uint8Array(1));

    const slices: Slice[] = [];
    // The result counts the answers of the warm-up, too.
    let result: { answers: number; errors: number } | undefined;
    for await (const line of { [Symbol.asyncIterator]: () => lines }) {
      const read = JSON.parse(line);
      if ("answers" in read) {
        result = read;
      } else {
        slices.push(read);
        await onSlice(read);
      }
    }
    await child.status;
    if (!result) throw new Error("Cannot measure: the load generator failed");

    // If an event has failed, the newest event of its subscription is not known.
    if (result.errors === 0 && target.query && plan.stream === "updates") {
      await checkApplied(target, { ...plan, sent: result.answers });
    }
    return { ...result, slices };
  };
}

/** Makes a target create the subscriptions that the other events are about. */
export async function createSubscriptions(
  target: Target,
  count: number = SUBSCRIPTIONS,
): Promise<void> {
  const send = await prepareLoad(target, {
    stream: "creations",
    connections: 8,
    subscriptions: count,
    count,
  });
  const { errors } = await send();
  if (errors === 0) return;
  throw new Error(
    `Cannot measure: ${target.title} refused ${errors} creations`,
  );
}

/** Checks that each record is as of the newest event that was sent about it. */
async function checkApplied(
  { title, databaseUrl, query }: Target,
  { subscriptions, start, sent }: LoadPlan & { readonly sent: number },
): Promise<void> {
  const rows = await withDatabase(
    databaseUrl,
    (sql) => sql.unsafe<{ at: Date | null }[]>(query!),
  );

  for (let i = 0; i < Math.min(sent, subscriptions); i++) {
    const newest = start + Math.floor((sent - 1 - i) / subscriptions);
    if (rows[i]?.at?.getTime() === newest * 1000) continue;
    throw new Error(
      `Cannot measure: ${title} answered 200, but record ${i} is not as of its newest event`,
    );
  }
}
