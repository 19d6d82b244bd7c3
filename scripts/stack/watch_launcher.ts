import type { Environment } from "./environment.ts";
import { lookUpProcess } from "./process_table.ts";

const EVERY = 1_000;

// "npm exec ...", as it calls itself; "node /usr/bin/npx ..."
const NPM = /(^|\/)np[mx](-cli\.js)?( |$)/;

// deno task, a shell, and the script that npm makes of a program: npm is not
// further up than this.
const MAX_STEPS = 5;

/**
 * Calls back when npm, which started this, is gone. A signal that ends `npx`
 * ends npm and its shell, but not `deno task` below them, which nobody then
 * could stop but by its id.
 *
 * @param env the command's environment, which tells whether npm started it
 */
export async function watchLauncher(
  env: Environment,
  onGone: () => void,
): Promise<void> {
  if (env["npm_command"] !== "exec") return;
  const before = await ancestry();
  const timer = setInterval(async () => {
    const now = await ancestry(before.length);
    if (now.join() === before.join()) return;
    clearInterval(timer);
    onGone();
  }, EVERY);
}

// The parents up to npm, this process's own first.
async function ancestry(steps = MAX_STEPS): Promise<number[]> {
  const ids: number[] = [];
  let entry = await lookUpProcess(Deno.pid);
  while (entry && ids.length < steps) {
    const { parent } = entry;
    ids.push(parent);
    entry = await lookUpProcess(parent);
    if (entry && NPM.test(entry.command)) break;
  }
  return ids;
}
