import type { Environment } from "../common/environment.ts";
import { watchLauncher } from "./watch_launcher.ts";

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
