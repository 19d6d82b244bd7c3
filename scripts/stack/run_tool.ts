import { createCommand } from "./create_command.ts";
import type { Environment } from "./environment.ts";

/** A command that does its work and ends. */
export type Tool = {
  /** What it is for, to follow "Cannot ". */
  purpose: string;
  command: string;
  args: string[];
  env: Environment;
  cwd: string;
  user?: { uid: number; gid: number };
};

/**
 * Runs a command to its end.
 *
 * @returns what it printed on standard output
 * @throws `Cannot <purpose>: ...` with what it printed, where it fails; the
 *   signal's reason where that ended it
 */
export async function runTool(
  tool: Tool,
  signal?: AbortSignal,
): Promise<string> {
  signal?.throwIfAborted();
  const child = createCommand(tool.command, {
    args: tool.args,
    env: tool.env,
    clearEnv: true,
    cwd: tool.cwd,
    ...tool.user,
    // Ctrl-C at the terminal is for this process alone, which then ends it.
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  function end() {
    child.kill("SIGTERM");
  }
  signal?.addEventListener("abort", end);
  const { success, code, stdout, stderr } = await child.output();
  signal?.removeEventListener("abort", end);
  signal?.throwIfAborted();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  const said = `${decoder.decode(stdout)}\n${decoder.decode(stderr)}`.trim();
  throw new Error(
    `Cannot ${tool.purpose}: the command ended with code ${code}.\n${said}`,
  );
}
