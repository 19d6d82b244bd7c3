/**
 * Measures several processes of a function on one database, as Supabase runs them: of
 * this receiver, and of the function by hand. Half of the events are about few
 * subscriptions, to show how these slow down the others.
 */
import type { Stack } from "../scripts/local_stack/stack.ts";
import { CROWDED } from "./load.ts";
import { median, type Options, show, table } from "./measure.ts";
import {
  receiverTarget,
  serveTarget,
  type TargetName,
  TARGETS,
} from "./servers.ts";
import {
  createSubscriptions,
  prepareLoad,
  restartPostgrest,
  SUBSCRIPTIONS,
  warmUpLoad,
} from "./throughput.ts";

const LOAD = { connections: 64, stream: "crowd" } as const;

/** What each round measures, one after the other. */
const CASES: readonly { name: TargetName; count: number }[] = [
  { name: "receiver", count: 1 },
  { name: "byHand", count: 1 },
  { name: "receiver", count: 4 },
  { name: "receiver", count: 8 },
  { name: "byHand", count: 8 },
];

const HEAD = [
  "Per second",
  "p50",
  "p99",
  "Not 200",
  "Crowd p99",
  "Not 200",
];

/** Compares the numbers of processes. */
export async function isolates(
  stack: Stack,
  { rounds, seconds }: Options,
): Promise<string> {
  await createSubscriptions(receiverTarget(stack), SUBSCRIPTIONS + CROWDED);

  const results = CASES.map(() => [] as number[][]);
  for (let round = 1; round <= rounds; round++) {
    for (const [i, { name, count }] of CASES.entries()) {
      const result = await measureOnce(stack, { name, count, seconds });
      results[i]!.push(result);
      const shown = result.map((figure) => show(figure, 1)).join(", ");
      console.log(`  ${round}/${rounds} ${name}, ${count}: ${shown}`);
    }
  }

  const rows = CASES.map(({ name, count }, i) => [
    TARGETS[name].title,
    `${count}`,
    ...HEAD.map((name, column) => {
      const figures = results[i]!.map((round) => round[column]!);
      return name === "Not 200"
        ? show(figures.reduce((sum, figure) => sum + figure, 0))
        : show(median(figures), 1);
    }),
  ]);

  return `
Half of the events are about ${CROWDED} subscriptions (the crowd), the others about
${SUBSCRIPTIONS}, over ${LOAD.connections} connections in all. Medians; answers other than 200 are sums.

${table(["Server", "Processes", ...HEAD], rows)}`;
}

/** Returns the figures in the order of the table. */
async function measureOnce(
  stack: Stack,
  { name, count, seconds }: typeof CASES[number] & { seconds: number },
): Promise<number[]> {
  await using started = new AsyncDisposableStack();
  const target = await serveTarget(stack, { name, started, count });
  await restartPostgrest(stack);

  const warmUp = await prepareLoad(target, { ...warmUpLoad(seconds), ...LOAD });
  const send = await prepareLoad(target, {
    ...LOAD,
    // Longer than for other parts, to see rare delays.
    seconds: seconds * 3,
    built: 15_000 * seconds,
  });
  await warmUp();

  const { slices } = await send();
  const { perSecond, p50, p99, errors, crowded } = slices[0]!;
  return [perSecond, p50, p99, errors, crowded.p99, crowded.errors];
}
