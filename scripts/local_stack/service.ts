import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { FaultInLines } from "../common/cli.ts";
import {
  createCommand,
  lookUpProcess,
  runningProcesses,
  signalTo,
} from "../common/processes.ts";
import type { Environment } from "../common/environment.ts";
import { waitUntil } from "./wait_until.ts";

export interface ServiceSpec {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Environment;
  readonly cwd: string;
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  readonly isReady: (processId: number) => boolean | Promise<boolean>;
  /** Matches a log line that means that it will not become ready. */
  readonly failure?: RegExp;
  readonly stopSignal: Deno.Signal;
}

export interface ServiceObserver {
  readonly onLog: (line: string, source: string) => void;
  readonly onUnexpectedEnd: (text: string) => void; // without being stopped
  readonly onSpawn?: (processId: number) => Promise<void>;
  readonly detached?: boolean; // whether Ctrl-C does not reach the service
}

export type Service = ReturnType<typeof createService>;

const READY_WITHIN_MS = 60_000;
const STOP_WITHIN_MS = 10_000;
const OUTPUT_WITHIN_MS = 500;
const LAST_LINES = 20;

export function createService(
  { name, command, args, env, cwd, user, isReady, failure, stopSignal }:
    ServiceSpec,
  { onLog, onUnexpectedEnd, onSpawn, detached = false }: ServiceObserver,
) {
  let running: { id: number; ended: Promise<void> } | undefined;
  let wanted = false;
  let lastLines: string[] = [];

  async function watch(child: Deno.ChildProcess) {
    const output = [child.stdout, child.stderr].map(async (stream) => {
      for await (const text of createInterface(Readable.fromWeb(stream))) {
        lastLines = [...lastLines.slice(1 - LAST_LINES), `  ${text}`];
        onLog(text, name);
      }
    });
    let isRead = false;
    Promise.all(output).then(() => isRead = true);

    const { code, signal } = await child.status;
    running = undefined;
    // Children that outlive it, such as a busy backend, keep the pipes open.
    await waitUntil(() => isRead, { timeoutMs: OUTPUT_WITHIN_MS });

    if (!wanted) return;
    wanted = false;
    const how = signal ? `by ${signal}` : `with code ${code}`;
    onUnexpectedEnd([`${name} ended ${how}`, ...lastLines].join("\n"));
  }

  async function start(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    lastLines = [];
    const child = createCommand(command, {
      args: [...args],
      env,
      clearEnv: true,
      cwd,
      ...user,
      detached,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    running = { id: child.pid, ended: watch(child) };
    await onSpawn?.(child.pid);

    const hasEnded = () =>
      !running || lastLines.some((line) => failure?.test(line.trim()));
    const isInTime = await waitUntil(
      async () => hasEnded() || await isReady(child.pid),
      { timeoutMs: READY_WITHIN_MS, signal },
    );
    wanted = isInTime && !hasEnded();
    if (wanted) return;

    await kill();
    const why = isInTime ? "ended at once" : "was not ready after a minute";
    throw new FaultInLines(
      `Cannot start ${name}: it ${why}.\n${lastLines.join("\n")}`,
    );
  }

  async function stop(): Promise<void> {
    wanted = false;
    if (running) signalTo(running.id, stopSignal);
    await waitUntil(() => !running, { timeoutMs: STOP_WITHIN_MS });
    await kill();
  }

  async function kill(): Promise<void> {
    wanted = false;
    if (!running) return;
    const { id, ended } = running;

    // Stopped first, so that it cannot start another child.
    signalTo(id, "SIGSTOP");
    const ids = [...await runningProcesses()]
      .filter(([pid, { parent }]) => pid === id || parent === id)
      .map(([pid]) => pid);
    for (const pid of ids) signalTo(pid, "SIGKILL");

    await ended;
    const areGone = async () => {
      const left = await Promise.all(ids.map(lookUpProcess));
      return left.every((entry) => entry === undefined);
    };
    await waitUntil(areGone, { timeoutMs: STOP_WITHIN_MS });
  }

  return { start, stop, kill };
}
