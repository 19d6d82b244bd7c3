import type { Environment } from "../common/environment.ts";

/** What the checks use of this machine. */
export interface CheckContext {
  readonly env: Environment;
  /** The views and functions that the migration creates in schema public. */
  readonly publicNames: readonly string[];
}

/** The result of a check; if it failed, also what to do about it. */
export type Check =
  | { readonly state: "ok" | "skipped"; readonly text: string }
  | { readonly state: "FAIL"; readonly text: string; readonly todo: string };

/** Results by the names of the checks, as they come. */
export type Checks = AsyncGenerator<readonly [name: string, Check]>;

/** Returns the result of a check that passed. */
export function ok(text: string): Check {
  return { state: "ok", text };
}

/** Returns the result of a check that was not made; the text says why. */
export function skipped(text: string): Check {
  return { state: "skipped", text };
}

/**
 * Returns the result of a check that failed.
 *
 * @param todo What to do: a command, or a place to look at.
 */
export function failed(text: string, todo: string): Check {
  return { state: "FAIL", text, todo };
}

/** Returns the one line on which a result is printed. */
export function checkLine(name: string, check: Check): string {
  const line = `${check.state.padEnd(8)} ${name.padEnd(15)} ${check.text}`;
  return check.state === "FAIL" ? `${line}. ${check.todo}` : line;
}
