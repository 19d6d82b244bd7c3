/**
 * Measures several instances of the receiver on one database, as Supabase runs them. Half
 * of the events are about few subscriptions: what does that do to the others?
 */
import { withDatabase } from "../scripts/local_stack/databases.ts";
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
  "Locked",
];

/**
 * Counts the events whose record a call found locked; the receiver calls again with them.
 * It counts in a sequence, which no rollback takes back.
 */
const COUNT_SQL = `
  create sequence public.bench_locked;
  grant all on sequence public.bench_locked to service_role;
  alter function public.billing_apply_events rename to bench_apply_events;
  create function public.billing_apply_events(events jsonb)
  returns table (place integer, outcome text, error_code text, error text, retries boolean)
  language sql volatile as $$
    select * from public.bench_apply_events(events) as a
    where a.error_code is distinct from '55P03' or nextval('public.bench_locked') > 0
  $$;
  grant execute on function public.billing_apply_events to service_role`;

/** Measures one, four and eight instances in each round. */
export async function isolates(
  stack: Stack,
  { rounds, seconds }: Options,
): Promise<string> {
  await createSubscriptions(receiverTarget(stack), SUBSCRIPTIONS + CROWDED);
  await withDatabase(stack.dbUrl, (sql) => sql.unsafe(COUNT_SQL).simple());

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
Half of the events are of ${CROWDED} subscriptions (crowded), the others of ${SUBSCRIPTIONS}, over
${LOAD.connections} connections in all. Medians; answers other than 200 are sums. Locked: events per
thousand that found their record locked by another call, and were tried again.

${table(["Of", ...HEAD], rows)}`;
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
    // Longer than for other parts, to see what is rare.
    seconds: seconds * 3,
    built: 15_000 * seconds,
  });
  await warmUp();

  return await withDatabase(stack.dbUrl, async (sql) => {
    await sql`select setval('public.bench_locked', 1)`;
    const { slices, answers } = await send();
    const { perSecond, p50, p99, errors, crowded } = slices[0]!;
    const [row] = await sql`select last_value from public.bench_locked`;
    const locked = (Number(row?.["last_value"]) - 1) * 1000 / answers;
    return [perSecond, p50, p99, errors, crowded.p99, crowded.errors, locked];
  });
}
