import type { Environment } from "../common/environment.ts";
import { childrenOf, lookUpProcess } from "../common/processes.ts";
import { readLines } from "./lines.ts";
import { type GuardedProcess, spawnGuarded } from "../common/spawn_guarded.ts";
import { waitUntil } from "../common/wait_until.ts";

/** How to run one part of the stack. */
export interface ServiceSpec {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Environment;
  readonly cwd: string;
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** Whether the service can be used. */
  readonly isReady: (processId: number) => boolean | Promise<boolean>;
  /** The signal that asks it to end. */
  readonly stopSignal: Deno.Signal;
}

/** What a service reports to the stack. */
export interface ServiceObserver {
  /** Called with each line that a service prints, and the service's name. */
  readonly onLog: (line: string, source: string) => void;
  /** Called if the service ends without being stopped; `text` says how. */
  readonly onUnexpectedEnd: (text: string) => void;
}

/** A part of the stack that can be started, stopped and killed. */
export interface Service {
  /** Starts it and waits until it is ready. */
  readonly start: (signal?: AbortSignal) => Promise<void>;
  /** Asks it to end. If it has not after ten seconds, kills it. */
  readonly stop: () => Promise<void>;
  /** Sends SIGKILL to it and its children, and waits until they are gone. */
  readonly kill: () => Promise<void>;
}

const READY_WITHIN_MS = 60_000;
const STOP_WITHIN_MS = 10_000;
const OUTPUT_WITHIN_MS = 500;
const LAST_LINES = 20;

/** Returns a service that is not started yet. */
export function createService(
  spec: ServiceSpec,
  observer: ServiceObserver,
): Service {
  let running:
    | { readonly process: GuardedProcess; readonly ended: Promise<void> }
    | undefined;
  let wanted = false;
  let lastLines: string[] = [];

  function onLine(text: string) {
    lastLines = [...lastLines.slice(1 - LAST_LINES), text];
    observer.onLog(text, spec.name);
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
    // Children that outlive it, such as a busy backend, keep the pipes open.
    await waitUntil(() => isRead, { timeoutMs: OUTPUT_WITHIN_MS });
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
    running = { process, ended };
    const isUp = await waitUntil(
      async () => running === undefined || await spec.isReady(child.pid),
      { timeoutMs: READY_WITHIN_MS, signal },
    );
    if (isUp && running !== undefined) {
      wanted = true;
      return;
    }
    await kill();
    await ended;
    throw new Error(
      `Cannot start ${spec.name}: it ${
        isUp
          ? "ended at once"
          : `was not ready after ${READY_WITHIN_MS / 1000} s`
      }.\n${lastLines.map((line) => `  ${line}`).join("\n")}`,
    );
  }

  async function stop() {
    wanted = false;
    const current = running;
    if (!current) return;
    current.process.kill(spec.stopSignal);
    const ended = await waitUntil(() => running === undefined, {
      timeoutMs: STOP_WITHIN_MS,
    });
    if (!ended) await kill();
    await current.ended;
  }

  async function kill() {
    wanted = false;
    const current = running;
    if (!current) return;
    const { pid } = current.process.child;
    const ids = [pid, ...await childrenOf(pid)];
    for (const id of ids) killProcess(id);
    await current.ended;
    await waitUntil(
      async () => (await Promise.all(ids.map(lookUpProcess))).every((p) => !p),
      { timeoutMs: STOP_WITHIN_MS },
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
