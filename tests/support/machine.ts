import { createSocket } from "node:dgram";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import {
  lookUpProcess,
  type ProcessEntry,
  runningProcesses,
  signalTo,
} from "../../scripts/common/processes.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";

/**
 * The system gives these to no outgoing connection, and a stack does not choose
 * them, so only another test could take one before a process listens there.
 */
const FIRST = 30_000;
const COUNT = 2_700;

/** Tests that run at the same time begin at different places. */
let next = Deno.pid * 97;

/**
 * Returns a port of 127.0.0.1 that nothing listens on. It is this process's until
 * its end: the UDP port of the same number, which nothing else uses, is held.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + next++ % COUNT;
    const held = createSocket("udp4").bind(port, "127.0.0.1").unref();
    try {
      await once(held, "listening");
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      held.close();
      const { code } = error as { code?: string };
      if (code !== "EADDRINUSE") throw error;
    }
  }
}

/**
 * Serves requests on a free port of 127.0.0.1. Its end waits for no answer: a failed
 * test may hold one back for ever.
 */
export function serveHere(
  answer: (request: Request) => Response | Promise<Response>,
): AsyncDisposable & { readonly url: string } {
  const ending = new AbortController();
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    signal: ending.signal,
    onListen() {},
  }, answer);
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: async () => {
      ending.abort();
      await server.finished;
    },
  };
}

export async function processTree(
  root: number,
): Promise<ReadonlyMap<number, ProcessEntry>> {
  const running = await runningProcesses();
  const byParent = Map.groupBy(running, ([, { parent }]) => parent);
  const tree = new Map<number, ProcessEntry>();
  const waiting = [...running].filter(([id]) => id === root);
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [id, entry] = next;
    tree.set(id, entry);
    waiting.push(...byParent.get(id) ?? []);
  }
  return tree;
}

export async function leftOf(
  tree: ReadonlyMap<number, ProcessEntry>,
): Promise<string[]> {
  const left = new Map<number, string>();
  await waitUntil(async () => {
    left.clear();
    for (const [id, { started, command }] of tree) {
      if ((await lookUpProcess(id))?.started === started) left.set(id, command);
    }
    return left.size === 0;
  }, { timeoutMs: HANG_LIMIT_MS });
  for (const id of left.keys()) signalTo(id, "SIGKILL");
  return [...left.values()];
}

/**
 * Has the tests' files made in memory, if there is room: a disk takes a tenth of the
 * processor time. They take 1.5 GiB at most, and their processes as much.
 */
export async function useMemory(): Promise<void> {
  const mounts = await Deno.readTextFile("/proc/self/mounts").catch(() => "");
  const runsPrograms = / \/dev\/shm (?!.*noexec)/.test(mounts);
  if (Deno.env.has("TMPDIR") || !runsPrograms) return;
  const { bavail, bsize } = await fs.statfs("/dev/shm");
  const { available } = Deno.systemMemoryInfo();
  if (Math.min(bavail * bsize, available / 2) < 4 * 2 ** 30) return;
  Deno.env.set("TMPDIR", "/dev/shm");
}
