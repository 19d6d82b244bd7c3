/**
 * Five minutes at most of what it can do: whether memory grows, answers slow
 * down or fail.
 *
 * @module
 */
import { createCommand } from "../scripts/common/create_command.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { subscriptionIds } from "./requests.ts";
import { createSubscriptions, runLoad } from "./run_load.ts";
import { median } from "./statistics.ts";
import { receiverTarget } from "./targets.ts";
import { MOST_CONNECTIONS } from "./throughput_results.ts";

const SLICES = 10;

/** How long a slice lasts. */
export const SLICE_SECONDS = 30;

/** Of the maximum. */
export const SHARE = 0.8;

/** What a slice came to. */
export interface SoakSlice {
  readonly perSecond: number;
  readonly p99: number;
  readonly errors: number;
  /** Of the receiver's process at the end of the slice, in MiB. */
  readonly memory: number;
}

/**
 * Runs the slices. Between two of them, it rests for the few seconds that it
 * takes to build the requests.
 *
 * @param options.maximum the events per second that were measured before; by
 *   default, they are measured first
 */
export async function measureSoak(
  stack: Stack,
  { folder, maximum }: { folder: string; maximum?: number | undefined },
): Promise<SoakSlice[]> {
  const target = receiverTarget(stack);
  const load = {
    connections: MOST_CONNECTIONS,
    subscriptions: subscriptionIds(),
    folder,
  };
  await createSubscriptions(target, load);
  const most = maximum ??
    (await runLoad(target, { ...load, seconds: 6 })).perSecond;
  const slices: SoakSlice[] = [];
  for (let i = 1; i <= SLICES; i++) {
    const { perSecond, p99, errors } = await runLoad(target, {
      ...load,
      seconds: SLICE_SECONDS,
      perSecond: most * SHARE,
    });
    const memory = await residentMemory(target.port);
    slices.push({ perSecond, p99, errors, memory });
    console.log(
      `  Slice ${i} of ${SLICES}: ${Math.round(perSecond)} per second, p99 ${
        p99.toFixed(1)
      } ms, ${Math.round(memory)} MiB`,
    );
  }
  return slices;
}

/** Returns the memory of the second half to that of the first, by medians. */
export function memoryGrowth(slices: readonly SoakSlice[]): number {
  const half = Math.floor(slices.length / 2);
  const memory = slices.map((slice) => slice.memory);
  return median(memory.slice(half)) / median(memory.slice(0, half));
}

/** Of the process that listens on a port of this machine. */
async function residentMemory(port: number): Promise<number> {
  const { stdout } = await createCommand("ps", {
    args: ["-eo", "rss=,args="],
  }).output();
  const line = new TextDecoder().decode(stdout).split("\n")
    .find((line) =>
      line.includes(" serve ") && line.includes(`--port ${port}`)
    );
  if (line === undefined) {
    throw new Error(`Cannot measure: no process serves port ${port}`);
  }
  return Number(line.trim().split(/\s+/)[0]) / 1024;
}
