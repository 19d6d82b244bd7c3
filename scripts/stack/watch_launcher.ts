import { lookUpProcess } from "./process_table.ts";

const EVERY = 1_000;

// "npm exec ...", as it calls itself; "node /usr/bin/npx ..."; "deno task ..."
const LAUNCHER = /(^|\/)np[mx](-cli\.js)?( |$)|(^|[ /])deno( -\S+)* task /;

// deno task, the script that npm makes of a program, a shell, and npm.
const MAX_STEPS = 5;

/**
 * Calls back when `deno task`, or npm that started it, is gone. A signal that
 * ends `npx` ends npm and its shell, but not `deno task` below them; SIGKILL
 * to `deno task` does not reach this process either. Nobody could then stop it
 * but by its id.
 */
export async function watchLauncher(onGone: () => void): Promise<void> {
  const before = await launchers();
  if (before.length === 0) return;
  const timer = setInterval(async () => {
    const now = await parents(before.length);
    if (now.join() === before.join()) return;
    clearInterval(timer);
    onGone();
  }, EVERY);
}

// The parents up to the last that launches, this process's own first.
async function launchers(): Promise<number[]> {
  const ids = await parents(MAX_STEPS);
  const entries = await Promise.all(ids.map(lookUpProcess));
  const last = entries.findLastIndex((entry) =>
    entry !== undefined && LAUNCHER.test(entry.command)
  );
  return ids.slice(0, last + 1);
}

async function parents(steps: number): Promise<number[]> {
  const ids: number[] = [];
  let entry = await lookUpProcess(Deno.pid);
  while (entry && entry.parent > 0 && ids.length < steps) {
    ids.push(entry.parent);
    entry = await lookUpProcess(entry.parent);
  }
  return ids;
}
