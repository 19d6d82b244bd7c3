import type { Environment } from "../common/environment.ts";
import { childrenOf, lookUpProcess } from "./processes.ts";
import { readLines } from "./lines.ts";
import { type GuardedProcess, spawnGuarded } from "../common/spawn_guarded.ts";
import { waitUntil } from "../common/wait_until.ts";

/** How to run one part of the stack. */
export type ServiceSpec = {
  name: string;
  command: string;
  args: string[];
  env: Environment;
  cwd: string;
  user?: { uid: number; gid: number } | undefined;
  /** Whether it can be used by now. */
  isReady: (processId: number) => boolean | Promise<boolean>;
  /** What asks it to end by itself. */
  stopSignal: Deno.Signal;
};

/** What a service tells the stack. */
export type ServiceObserver = {
  onLog: (line: { source: string; text: string }) => void;
  /** It ended and nobody had asked it to: the text says how. */
  onUnexpectedEnd: (text: string) => void;
};

/** One part of the stack while it can be started, stopped and killed. */
export type Service = {
  /** Starts it and waits until it can be used. */
  start: (signal?: AbortSignal) => Promise<void>;
  /** Asks it to end, and kills it where it does not within ten seconds. */
  stop: () => Promise<void>;
  /** SIGKILL, to it and to its children, and waits until they are gone. */
  kill: () => Promise<void>;
};

const READY_WITHIN = 60_000;
const STOP_WITHIN = 10_000;
const LAST_LINES = 20;

/** Makes a service. It starts nothing yet. */
export function createService(
  spec: ServiceSpec,
  observer: ServiceObserver,
): Service {
  let running: { child: Deno.ChildProcess; ended: Promise<void> } | undefined;
  let wanted = false;
  let lastLines: string[] = [];

  function onLine(text: string) {
    lastLines = [...lastLines.slice(1 - LAST_LINES), text];
    observer.onLog({ source: spec.name, text });
  }

  async function watch({ child, ended }: GuardedProcess) {
    const output = Promise.all([
      readLines(child.stdout, onLine),
      readLines(child.stderr, onLine),
    ]);
    let isRead = false;
    output.then(() => isRead = true);
    const { code, signal } = await ended;
    running = undefined;
    // Children that outlive it, such as a busy backend, hold the pipes open.
    await waitUntil(() => isRead, { timeoutMs: 500 });
    if (!wanted) return;
    wanted = false;
    observer.onUnexpectedEnd(
      [
        `${spec.name} ended ${signal ? `by ${signal}` : `with code ${code}`}`,
        ...lastLines.map((line) => `  ${line}`),
      ].join("\n"),
    );
  }

  async function start(signal?: AbortSignal) {
    signal?.throwIfAborted();
    lastLines = [];
    const process = spawnGuarded({
      command: spec.command,
      args: spec.args,
      stopSignal: spec.stopSignal,
      options: {
        env: spec.env,
        clearEnv: true,
        cwd: spec.cwd,
        ...spec.user,
        stdout: "piped",
        stderr: "piped",
      },
    });
    const { child } = process;
    const ended = watch(process);
    running = { child, ended };
    const isUp = await waitUntil(
      async () => running === undefined || await spec.isReady(child.pid),
      { timeoutMs: READY_WITHIN, ...(signal && { signal }) },
    );
    if (isUp && running !== undefined) {
      wanted = true;
      return;
    }
    await kill();
    await ended;
    throw new Error(
      `Cannot start ${spec.name}: it ${
        isUp ? "ended at once" : `was not ready after ${READY_WITHIN} ms`
      }.\n${lastLines.map((line) => `  ${line}`).join("\n")}`,
    );
  }

  async function stop() {
    wanted = false;
    const current = running;
    if (!current) return;
    current.child.kill(spec.stopSignal);
    const ended = await waitUntil(() => running === undefined, {
      timeoutMs: STOP_WITHIN,
    });
    if (!ended) await kill();
    await current.ended;
  }

  async function kill() {
    wanted = false;
    const current = running;
    if (!current) return;
    const { pid } = current.child;
    const ids = [pid, ...await childrenOf(pid)];
    for (const id of ids) killProcess(id);
    await current.ended;
    await waitUntil(
      async () => (await Promise.all(ids.map(lookUpProcess))).every((p) => !p),
      { timeoutMs: STOP_WITHIN },
    );
  }

  return { start, stop, kill };
}

function killProcess(id: number) {
  try {
    Deno.kill(id, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
