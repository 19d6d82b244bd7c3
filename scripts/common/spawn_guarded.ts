import { createCommand } from "./create_command.ts";
import { fileURLToPath } from "node:url";

/** How to run a program that must not outlive this process. */
export interface GuardedCommand {
  readonly command: string;
  readonly args: string[];
  /** The rest, as of `Deno.Command`; it reads nothing and is `detached`. */
  readonly options: Omit<Deno.CommandOptions, "args" | "detached" | "stdin">;
  /** What asks it to end. */
  readonly stopSignal: Deno.Signal;
}

const GUARD = fileURLToPath(new URL("guard.sh", import.meta.url));

// Until the guard is there, it only waits: this process may be killed at any
// moment. Then it becomes the program, under the same id.
const START_WHEN_TOLD = 'read -r _ && exec "$@" < /dev/null';

/** A guarded program that runs. */
export interface GuardedProcess {
  readonly child: Deno.ChildProcess;
  /** How it ended; settled once its guard has ended too. */
  readonly ended: Promise<Deno.CommandStatus>;
  /**
   * Sends a signal to the program and to what it has started, if any of it is
   * left.
   */
  readonly kill: (signal: Deno.Signal) => void;
}

/**
 * Starts a program in a session of its own, which Ctrl-C at the terminal does
 * not reach, with a guard beside it. If this process ends first, in whatever
 * way, the guard sends the program's process group the signal, and SIGKILL ten
 * seconds later.
 */
export function spawnGuarded(
  { command, args, options, stopSignal }: GuardedCommand,
): GuardedProcess {
  const child = createCommand("/bin/sh", {
    ...options,
    args: ["-c", START_WHEN_TOLD, "sh", command, ...args],
    detached: true,
    stdin: "piped",
  }).spawn();
  const guard = createCommand("/bin/sh", {
    args: [GUARD, `${child.pid}`, stopSignal.replace("SIG", "")],
    cwd: "/",
    detached: true,
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();

  const told = sayLine(child.stdin);

  async function end() {
    const status = await child.status;
    await told;
    await sayLine(guard.stdin);
    await guard.status;
    return status;
  }

  // The whole process group, which has the program's id and outlives it.
  function kill(signal: Deno.Signal) {
    try {
      Deno.kill(-child.pid, signal);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  return { child, ended: end(), kill };
}

/** Writes an empty line, to a process that may be gone already. */
async function sayLine(to: WritableStream<Uint8Array>): Promise<void> {
  const writer = to.getWriter();
  try {
    await writer.write(new TextEncoder().encode("\n"));
    await writer.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
