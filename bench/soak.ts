/**
 * Five minutes at most of what it can do: whether memory grows, answers slow
 * down or fail.
 */
import { createCommand } from "../scripts/common/create_command.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { median, show, spread } from "./measure.ts";
import { subscriptionIds } from "./requests.ts";
import { receiverTarget } from "./servers.ts";
import {
  createSubscriptions,
  MOST_CONNECTIONS,
  prepareLoad,
} from "./throughput.ts";

const SLICES = 10;

const SLICE_SECONDS = 30;

/** Of the maximum. */
const SHARE = 0.8;

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
 */
export async function measureSoak(
  stack: Stack,
  folder: string,
): Promise<SoakSlice[]> {
  const target = receiverTarget(stack);
  const load = {
    connections: MOST_CONNECTIONS,
    subscriptions: subscriptionIds(),
    folder,
  };
  await createSubscriptions(target, load);
  const send = await prepareLoad(target, { ...load, seconds: 10 });
  const { perSecond: most } = await send();
  const slices: SoakSlice[] = [];
  for (let i = 1; i <= SLICES; i++) {
    const send = await prepareLoad(target, {
      ...load,
      seconds: SLICE_SECONDS,
      perSecond: most * SHARE,
    });
    const { perSecond, p99, errors } = await send();
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

/** Returns the results as Markdown. */
export function soakSection(slices: readonly SoakSlice[]): string {
  const memory = slices.map((slice) => slice.memory);
  const half = memory.length / 2;
  const growth = median(memory.slice(half)) / median(memory.slice(0, half));
  const errors = slices.reduce((sum, slice) => sum + slice.errors, 0);
  const over = (name: keyof SoakSlice, digits: number) =>
    show(spread(slices.map((slice) => slice[name])), digits);
  return `## Soak: ${slices.length * SLICE_SECONDS / 60} minutes at ${
    SHARE * 100
  } % of the maximum

Over slices of ${SLICE_SECONDS} s: ${
    over("perSecond", 0)
  } events per second, p99 ${over("p99", 1)} ms, ${
    over("memory", 0)
  } MiB of memory, ${errors} errors. Memory in the second
half is ${growth.toFixed(2)} times that in the first.`;
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
