import type { Environment } from "./environment.ts";
import { spawnGroup } from "./spawn_group.ts";

/** A command that does its work and ends. */
export interface Tool {
  /** What it is for, to follow "Cannot ". */
  readonly purpose: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Environment;
  readonly cwd: string;
  readonly user?: { readonly uid: number; readonly gid: number };
}

/**
 * Runs a command to its end.
 *
 * @returns what it printed on standard output
 * @throws {Error} `Cannot <purpose>: ...` with its output, if it fails
 * @throws the signal's reason, if that ended it
 */
export async function runTool(
  tool: Tool,
  signal?: AbortSignal,
): Promise<string> {
  signal?.throwIfAborted();
  const { child, ended, kill } = spawnGroup({
    command: tool.command,
    args: tool.args,
    options: {
      env: tool.env,
      clearEnv: true,
      cwd: tool.cwd,
      ...tool.user,
      stdout: "piped",
      stderr: "piped",
    },
  });
  function end() {
    kill("SIGTERM");
  }
  signal?.addEventListener("abort", end);
  const [{ success, code }, stdout, stderr] = await Promise.all([
    ended,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  signal?.removeEventListener("abort", end);
  signal?.throwIfAborted();
  if (success) return stdout;
  const said = `${stdout}\n${stderr}`.trim();
  throw new Error(
    `Cannot ${tool.purpose}: the command ended with code ${code}.\n${said}`,
  );
}
