import type { Environment } from "./environment.ts";
import { lookUpProcess } from "./processes.ts";

const CHECK_EVERY_MS = 1_000;

// As npm calls itself, "npm exec ...", or "node /usr/bin/npx ...".
const NPM = /(^|\/)np[mx](-cli\.js)?( |$)/;

// "deno task ...".
const TASK = /(^|[ /])deno( -\S+)* task /;

// deno task, npm's script for a program, a shell and npm; and the same again if
// a test runs the gate.
const MAX_STEPS = 10;

/**
 * Aborts when this process should end: on Ctrl-C, on a signal, when the terminal
 * is closed, or when the process that launched it has ended.
 */
export async function abortOnEnd(
  ending: AbortController,
  env: Environment,
): Promise<void> {
  // Ctrl-C arrives twice: from the terminal and from `deno task`.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => ending.abort());
  }
  await watchLauncher(env, () => ending.abort());
}

/** Resolves when a signal is aborted. */
export function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined));
  });
}

/**
 * Calls `onGone` when `deno task`, or the npm that started it, has ended. A
 * signal to `npx` ends npm and its shell, but not `deno task` below them, and
 * SIGKILL to `deno task` does not reach this process. Without this function it
 * would run on until it is stopped by its id.
 *
 * @param env the command's environment, which shows whether npx started it
 */
export async function watchLauncher(
  env: Environment,
  onGone: () => void,
): Promise<void> {
  const ids = await parents(MAX_STEPS);
  const commands = (await Promise.all(ids.map(lookUpProcess)))
    .map((entry) => entry?.command ?? "");
  if (isByNpx(env) && !commands.some((command) => NPM.test(command))) {
    return onGone(); // it ended before this process began
  }
  const last = commands.findLastIndex((command) =>
    NPM.test(command) || TASK.test(command)
  );
  const before = ids.slice(0, last + 1).join();
  if (before === "") return;
  const timer = setInterval(async () => {
    if ((await parents(last + 1)).join() === before) return;
    clearInterval(timer);
    onGone();
  }, CHECK_EVERY_MS);
}

function isByNpx(env: Environment): boolean {
  return env["npm_lifecycle_event"] === "npx" &&
    /\b(deno|billing-webhook-receiver)\b/.test(
      env["npm_lifecycle_script"] ?? "",
    );
}

/** Returns the ids of the ancestors, the parent first. */
async function parents(steps: number): Promise<number[]> {
  const ids: number[] = [];
  let entry = await lookUpProcess(Deno.pid);
  while (entry && entry.parent > 0 && ids.length < steps) {
    ids.push(entry.parent);
    entry = await lookUpProcess(entry.parent);
  }
  return ids;
}
