import { createCommand } from "./create_command.ts";

/** A program to run in a process group of its own. */
export interface GroupCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** The other options of `Deno.Command`. Standard input is empty. */
  readonly options: Omit<Deno.CommandOptions, "args" | "detached" | "stdin">;
}

/** A program that runs, and leads a group of what it has started. */
export interface ProcessGroup {
  readonly child: Deno.ChildProcess;
  readonly ended: Promise<Deno.CommandStatus>;
  /** Sends a signal to each process of the group, if any is left. */
  readonly kill: (signal: Deno.Signal) => void;
}

/**
 * Starts a program in its own session, so that Ctrl-C at the terminal does not
 * reach it, and that it can be ended together with what it has started.
 */
export function spawnGroup(
  { command, args, options }: GroupCommand,
): ProcessGroup {
  const child = createCommand(command, {
    ...options,
    args: [...args],
    detached: true,
    stdin: "null",
  }).spawn();
  function kill(signal: Deno.Signal) {
    try {
      Deno.kill(-child.pid, signal);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return { child, ended: child.status, kill };
}
