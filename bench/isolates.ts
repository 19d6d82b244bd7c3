/**
 * Measures several instances of the receiver on one database, as Supabase runs them. Half
 * of the events are about few subscriptions, to show how these slow down the others.
 */
import type { Stack } from "../scripts/local_stack/stack.ts";
import { CROWDED } from "./load.ts";
import { median, type Options, show, table } from "./measure.ts";
import { receiverTarget, serveReceivers } from "./servers.ts";
import {
  createSubscriptions,
  prepareLoad,
  restartPostgrest,
  SUBSCRIPTIONS,
  warmUpLoad,
} from "./throughput.ts";

const LOAD = { connections: 64, stream: "crowd" } as const;

const HEAD = [
  "Per second",
  "p50",
  "p99",
  "Not 200",
  "Crowd p99",
  "Not 200",
];

/** Measures one, four and eight instances in each round. */
export async function isolates(
  stack: Stack,
  { rounds, seconds }: Options,
): Promise<string> {
  await createSubscriptions(receiverTarget(stack), SUBSCRIPTIONS + CROWDED);

  const results = new Map([1, 4, 8].map((count) => [count, [] as number[][]]));
  for (let round = 1; round <= rounds; round++) {
    for (const [count, figures] of results) {
      const result = await measureOnce(stack, { count, seconds });
      figures.push(result);
      const shown = result.map((figure) => show(figure, 1)).join(", ");
      console.log(`  ${round}/${rounds} ${count} instances: ${shown}`);
    }
  }

  const rows = [...results].map(([count, rounds]) => [
    `${count}`,
    ...HEAD.map((name, i) => {
      const figures = rounds.map((round) => round[i]!);
      return name === "Not 200"
        ? show(figures.reduce((sum, figure) => sum + figure, 0))
        : show(median(figures), 1);
    }),
  ]);

  return `
Half of the events are about ${CROWDED} subscriptions (the crowd), the others about
${SUBSCRIPTIONS}, over ${LOAD.connections} connections in all. Medians; answers other than 200 are sums.

${table(["Instances", ...HEAD], rows)}`;
}

/** Returns the figures in the order of the table. */
async function measureOnce(
  stack: Stack,
  { count, seconds }: { count: number; seconds: number },
): Promise<number[]> {
  await restartPostgrest(stack);
  await using started = new AsyncDisposableStack();
  const ports = await serveReceivers(stack, { count, started });
  const target = receiverTarget(stack, ports);

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
