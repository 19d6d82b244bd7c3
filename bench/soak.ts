/**
 * A minute at most of what it can do: whether memory grows, answers slow down
 * or fail.
 *
 * @module
 */
import { createCommand } from "../scripts/common/create_command.ts";
import type { Stack } from "../scripts/local_stack/start_stack.ts";
import { subscriptionIds, writeRequests } from "./requests.ts";
import { runLoad } from "./run_load.ts";
import { receiverTarget } from "./targets.ts";

const SLICES = 6;
const SECONDS = 10;
const SHARE = 0.8;

/** What a slice of the minute came to. */
export interface SoakSlice {
  readonly perSecond: number;
  readonly p99: number;
  readonly errors: number;
  /** Of the receiver's process at the end of the slice, in MiB. */
  readonly memory: number;
}

/**
 * @param maximum The events a second that were measured before.
 */
export async function measureSoak(
  stack: Stack,
  { folder, maximum }: { folder: string; maximum: number },
): Promise<SoakSlice[]> {
  const target = receiverTarget(stack);
  const requests = `${folder}/requests`;
  await writeRequests(requests, {
    shape: target.shape,
    count: Math.ceil(maximum * SHARE * SECONDS * (SLICES + 1)),
    run: crypto.randomUUID().slice(0, 8),
    subscriptions: subscriptionIds(2_000),
  });
  const slices: SoakSlice[] = [];
  let offset = 0;
  for (let i = 0; i < SLICES; i++) {
    const result = await runLoad({
      port: target.port,
      connections: 64,
      requests,
      offset,
      seconds: SECONDS,
      perSecond: maximum * SHARE,
    });
    offset = result.offset;
    slices.push({
      perSecond: result.perSecond,
      p99: result.p99,
      errors: result.errors,
      memory: await residentMemory(target.port),
    });
  }
  return slices;
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
  return Number(line?.trim().split(/\s+/)[0]) / 1024;
}
