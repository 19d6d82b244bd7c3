import { createCommand } from "../scripts/common/create_command.ts";
import { checkApplied } from "./applied.ts";
import type { LoadPlan, LoadResult } from "./load.ts";
import {
  type PerProcess,
  perProcess,
  processorTimes,
} from "./processor_time.ts";
import { type RequestOptions, writeRequests } from "./requests.ts";
import { machineTime, stolenShare } from "./stolen_time.ts";
import type { Target } from "./targets.ts";

/** What to send to a target. */
export interface Load
  extends
    Pick<LoadPlan, "connections" | "seconds" | "warmUpSeconds" | "perSecond"> {
  readonly subscriptions: readonly string[];
  readonly type?: RequestOptions["type"];
  /** For files. */
  readonly folder: string;
}

/** What came of a load, and what it cost. */
export interface MeasuredLoad extends LoadResult {
  /** Processor time per answer, in milliseconds, with the warm-up. */
  readonly processor: PerProcess<number>;
  /** Share of the machine's processor time that its host gave to others. */
  readonly stolen: number;
}

/** More answers per second than one connection ever gets. */
const MOST_PER_CONNECTION = 3_000;

/**
 * Sends new events to a target, and checks in its database that it has applied
 * each of them. The load generator is a process of its own.
 *
 * @throws {Error} if an event was not applied
 */
export async function runLoad(
  target: Target,
  load: Load,
): Promise<MeasuredLoad> {
  const send = await prepareLoad(target, load);
  return await send();
}

/**
 * Builds the events of {@linkcode runLoad}, which takes seconds.
 *
 * @returns what sends them, once. Updates have to be sent in the order in which
 *   they were built: others are stale
 */
export async function prepareLoad(
  target: Target,
  { connections, seconds, warmUpSeconds = 0, perSecond, ...load }: Load,
): Promise<() => Promise<MeasuredLoad>> {
  const { subscriptions, type, folder } = load;
  const { port, shape, ids, records } = target;
  const requests = await Deno.makeTempFile({ dir: folder });
  const most = Math.min(
    perSecond === undefined ? target.most : perSecond * 1.1,
    connections * MOST_PER_CONNECTION,
  );
  const repeats = records === undefined;
  const start = await writeRequests(requests, {
    shape,
    count: seconds === undefined || repeats
      ? subscriptions.length
      : Math.ceil(most * (warmUpSeconds + seconds)) + connections,
    subscriptions,
    ...(type && { type }),
    ...(ids && { ids }),
  });

  return async function send() {
    const before = await processorTimes();
    const machineBefore = await machineTime();
    const result = await generate({
      ...{ port, connections, requests, repeats, warmUpSeconds },
      ...(seconds !== undefined && { seconds }),
      ...(perSecond !== undefined && { perSecond }),
    });
    const machineAfter = await machineTime();
    const after = await processorTimes();
    // If possible before the system writes it to the disk.
    await Deno.remove(requests);
    // Which one failed is not known.
    if (records && result.errors === 0) {
      await checkApplied(target.name, {
        records,
        subscriptions,
        start,
        count: result.answers,
      });
    }
    return {
      ...result,
      processor: perProcess((name) =>
        (after[name] - before[name]) * 1000 / result.answers
      ),
      stolen: stolenShare(machineBefore, machineAfter),
    };
  };
}

/** Lets a target create the subscriptions that the other events are about. */
export async function createSubscriptions(
  target: Target,
  options: Pick<Load, "subscriptions" | "folder">,
): Promise<void> {
  const type = "customer.subscription.created";
  const { errors } = await runLoad(target, {
    ...options,
    type,
    connections: 8,
  });
  if (errors > 0) {
    throw new Error(
      `Cannot measure: ${target.name} refused ${errors} of ${type}`,
    );
  }
}

async function generate(plan: LoadPlan): Promise<LoadResult> {
  const { success, stdout } = await createCommand(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "bench/load.ts", JSON.stringify(plan)],
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("Cannot measure: the load generator failed");
  return JSON.parse(new TextDecoder().decode(stdout));
}
