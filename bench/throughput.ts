/**
 * Events per second, how long each takes and what it costs, end to end over real HTTP, in
 * rounds of random order: this receiver, its peers, and its parts.
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { createCommand } from "../scripts/common/create_command.ts";
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

/** What is compared. */
export const PEERS: readonly TargetName[] = [
  ...["receiver", "byHand", "engine", "enginePool", "older"] as const,
  "verify",
];

/** Each takes a part more than the one before it. */
const STEPS = ["bare", "verify", "ignored", "receiver"] as const;

/** What a load came to. */
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
    return select(connections, names).map((rounds) => {
      const middle = (of: "p50" | "p99" | "perSecond", all = rounds) =>
        median(all.map((one) => one[of]));
      return [
        ...[`${connections}`, TARGETS[rounds[0]!.name].title],
        show(spread(rounds.map(({ perSecond }) => perSecond))),
        ...[middle("p50"), middle("p99")].map((ms) =>
          show(ms, ms < 99 ? 1 : 0)
        ),
        show(middle("perSecond", ours) / middle("perSecond"), 2),
        show(middle("p99", ours) / middle("p99"), 2),
      ];
    });
  });
  if (options.chart) {
    const groups = options.connections.map((connections) => ({
      heading: `Connections: ${connections}`,
      bars: select(connections, names).map((rounds) => ({
        title: TARGETS[rounds[0]!.name].title,
        value: median(rounds.map(({ perSecond }) => perSecond)),
      })),
    }));
    const title = "Subscription updates per second, over HTTP";
    await Deno.writeTextFile(options.chart, barChart(title, groups));
  }
  return `
Subscription updates of 3 kB, each a new event, signed and verified: events per
second (range of the rounds), and the milliseconds that half and 99 % of them take
at most; then how many times a server's events, and its p99, this receiver has. The
database showed that every event was applied.

${table(["To", "What", "Per second", "p50", "p99", "Times", "p99"], rows)}`;
}

/** Shows where a delivery's processor time goes. */
export async function parts(stack: Stack, options: Options): Promise<string> {
  const select = await measureTargets(stack, STEPS, options);
  const rows = options.connections.flatMap((connections) => {
    const times = select(connections, STEPS).map((rounds) =>
      PROCESSES.map((_, i) => median(rounds.map((one) => one.processor[i]!)))
    );
    return STEPS.map((name, i) => [
      ...[`${connections}`, TARGETS[name].title],
      show(times[i]![0]! - (times[i - 1]?.[0] ?? 0), 3),
      ...times[i]!.map((time) => show(time, 3)),
    ]);
  });
  return `
Milliseconds of one core per event, by process, and what the receiver takes more than
the server above it: for HTTP; the signature; parsing and the log; and the call. The
worker is not counted.

${table(["To", "What", "More", ...PROCESSES], rows)}`;
}

/**
 * Measures each target in each round, over each number of connections.
 *
 * @returns what selects the rounds of each of some targets
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
  // The others make what is not there.
  await createSubscriptions(receiverTarget(stack));
  const measured: Measured[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const [name, target] of shuffled(targets)) {
      // With the database connections that the target before it left, each call
      // takes Postgres 0.3 ms more.
      await restartPostgrest(stack);
      const warmUp = await prepareLoad(target, warmUpLoad(seconds));
      const prepared = [];
      for (const count of shuffled(connections)) {
        const load = { connections: count, seconds, warmUpSeconds: 1 };
        const [most, each] = target.query ? [8_000, 400] : [20_000, 4_000];
        const built = Math.min(most, count * each) * (seconds + 1);
        const send = await prepareLoad(target, { ...load, built });
        prepared.push({ connections: count, send });
      }
      await warmUp();
      for (const { connections, send } of prepared) {
        const before = await processorTimes();
        const { slices: [slice], answers } = await send();
        const after = await processorTimes();
        const processor = PROCESSES
          .map((name) => (after[name] - before[name]) * 1000 / answers);
        measured.push({ ...slice!, name, connections, processor });
        const { perSecond, p50, p99, errors } = slice!;
        const figures = [perSecond, p50, p99].map((it) => show(it, 1));
        const failed = errors > 0 ? `, FAILED: ${errors}` : "";
        console.log(
          `  ${round}/${rounds} ${target.title}, ${connections}: ${figures}${failed}`,
        );
      }
    }
  }
  return (connections: number, names: readonly TargetName[]) =>
    names.map((name) =>
      measured.filter((one) =>
        one.name === name && one.connections === connections
      )
    );
}

/**
 * While a server is idle, V8 may let go of its compiled code. Under load, it takes
 * some eight seconds until the code is as fast as it was.
 */
export function warmUpLoad(seconds: number) {
  return { connections: 64, seconds: 2 * seconds, perSecond: 4_000 };
}

export async function restartPostgrest({ postgrest }: Stack): Promise<void> {
  await postgrest.stop();
  await postgrest.start();
}

/** Events are of the last months: each load has later ones than those before it. */
let nextStart = Math.floor(Date.now() / 1000) - 90 * 86_400;
const LOAD_SECONDS = 10_000;

/**
 * Has the events for a target built, which takes seconds.
 *
 * @returns what sends them, once, and checks in its database that each is applied.
 *   Updates have to be sent in the order in which they were prepared: others are stale
 */
export async function prepareLoad(
  target: Target,
  load: Partial<LoadPlan> & Pick<LoadPlan, "connections">,
) {
  const plan: LoadPlan = {
    ports: target.ports,
    stream: target.stream ?? "updates",
    ...{ subscriptions: SUBSCRIPTIONS, start: nextStart, ...load },
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
    // With those of the warm-up.
    let result: { answers: number; errors: number } | undefined;
    for await (const line of { [Symbol.asyncIterator]: () => lines }) {
      const read = JSON.parse(line);
      if ("answers" in read) result = read;
      else {
        slices.push(read);
        await onSlice(read);
      }
    }
    await child.status;
    if (!result) throw new Error("Cannot measure: the load generator failed");
    // Which one failed is not known.
    if (result.errors === 0 && target.query && plan.stream === "updates") {
      await checkApplied(target, { ...plan, sent: result.answers });
    }
    return { ...result, slices };
  };
}

/** Lets a target create the subscriptions that the other events are about. */
export async function createSubscriptions(
  target: Target,
  count: number = SUBSCRIPTIONS,
): Promise<void> {
  const creations = { stream: "creations", connections: 8 } as const;
  const all = { ...creations, subscriptions: count, count };
  const { errors } = await (await prepareLoad(target, all))();
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
