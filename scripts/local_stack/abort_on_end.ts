import type { Environment } from "../common/environment.ts";
import { lookUpProcess } from "./processes.ts";

const EVERY = 1_000;

// "npm exec ...", as it calls itself; "node /usr/bin/npx ..."
const NPM = /(^|\/)np[mx](-cli\.js)?( |$)/;

// "deno task ..."
const TASK = /(^|[ /])deno( -\S+)* task /;

// deno task, the script that npm makes of a program, a shell and npm; and the
// same once more for a gate that a test runs.
const MAX_STEPS = 10;

/**
 * Aborts when this process is told to end: by Ctrl-C, by a signal, by a
 * terminal that is closed, or because what launched it is gone.
 */
export async function abortOnEnd(
  ending: AbortController,
  env: Environment,
): Promise<void> {
  // One Ctrl-C arrives twice: from the terminal, and from `deno task`.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => ending.abort());
  }
  await watchLauncher(env, () => ending.abort());
}

/**
 * Calls back when `deno task`, or npm that started it, is gone. A signal that
 * ends `npx` ends npm and its shell, but not `deno task` below them; SIGKILL
 * to `deno task` does not reach this process either. Nobody could then stop it
 * but by its id.
 *
 * @param env the command's environment, which tells whether npx started it
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
  }, EVERY);
}

function isByNpx(env: Environment): boolean {
  return env["npm_lifecycle_event"] === "npx" &&
    /\bdeno\b/.test(env["npm_lifecycle_script"] ?? "");
}

/** The ids of the parents, this process's own first. */
async function parents(steps: number): Promise<number[]> {
  const ids: number[] = [];
  let entry = await lookUpProcess(Deno.pid);
  while (entry && entry.parent > 0 && ids.length < steps) {
    ids.push(entry.parent);
    entry = await lookUpProcess(entry.parent);
  }
  return ids;
}
