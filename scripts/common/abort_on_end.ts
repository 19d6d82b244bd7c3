import type { Environment } from "./environment.ts";
import { lookUpProcess } from "./processes.ts";

const CHECK_EVERY_MS = 1_000;

/** "npm exec ...", or "node /usr/bin/npx ...". */
const NPM = /(^|\/)np[mx](-cli\.js)?( |$)/;

const LAUNCHER = new RegExp(`${NPM.source}|(^|[ /])deno( -\\S+)* task `);

/** Aborts on a signal, or when what launched this process has ended. */
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

/**
 * Calls `onGone` when `deno task`, or the npm that started it, has ended. A
 * signal to `npx` ends npm and its shell, but not `deno task` below them, and
 * SIGKILL to `deno task` does not reach this process.
 */
export async function watchLauncher(
  env: Environment,
  onGone: () => void,
): Promise<void> {
  const all = await ancestors();
  const script = env["npm_lifecycle_script"] ?? "";

  const isFromNpx = env["npm_lifecycle_event"] === "npx" &&
    /\b(deno|billing-webhook-receiver)\b/.test(script);
  if (isFromNpx && !all.some(({ command }) => NPM.test(command))) {
    return onGone(); // it ended before this process began
  }

  const last = all.findLastIndex(({ command }) => LAUNCHER.test(command));
  const launchers = all.slice(0, last + 1);
  if (launchers.length === 0) return;

  const timer = setInterval(async () => {
    const now = await ancestors();
    if (launchers.every(({ id }, i) => id === now[i]?.id)) return;
    clearInterval(timer);
    onGone();
  }, CHECK_EVERY_MS);
}

async function ancestors() {
  const found: { id: number; command: string }[] = [];
  let entry = await lookUpProcess(Deno.pid);
  while (entry && entry.parent > 0) {
    const id: number = entry.parent;
    entry = await lookUpProcess(id);
    found.push({ id, command: entry?.command ?? "" });
  }
  return found;
}
