/**
 * `deno task start` as a process of its own, whose output can be left unread.
 *
 * @module
 */
import {
  spawnGroup,
  toolEnvironment,
} from "../../scripts/local_stack/tools.ts";
import { freePorts } from "./free_port.ts";

/** A running stack whose output nobody reads any more. */
export interface StartedStack extends AsyncDisposable {
  /** The process of the command: `deno task`. */
  readonly id: number;
  /** The webhook, behind the gateway. */
  readonly webhookUrl: string;
  kill(signal: Deno.Signal): void;
  /** Closes the reader's end of the pipe. */
  hangUp(): Promise<void>;
}

const READY = "Stop with Ctrl-C";

/** Starts a stack on free ports, and reads its output until it is ready. */
export async function startedStack(dataDir: string): Promise<StartedStack> {
  const ports = freePorts();
  const { child, ended } = spawnGroup({
    command: Deno.execPath(),
    args: ["task", "start"],
    options: {
      clearEnv: true,
      env: {
        ...toolEnvironment(),
        NO_COLOR: "1",
        ...stackSettings(ports, dataDir),
      },
      stdout: "piped",
      stderr: "null",
    },
  });
  let isEnded = false;
  ended.then(() => isEnded = true);
  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  let said = "";
  while (!said.includes(READY)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`Cannot start:\n${said}`);
    said += decoder.decode(value, { stream: true });
  }
  return {
    id: child.pid,
    webhookUrl: `http://127.0.0.1:${ports.api}/functions/v1/billing-webhook`,
    kill: (signal) => child.kill(signal),
    hangUp: () => reader.cancel(),
    [Symbol.asyncDispose]: async () => {
      await reader.cancel();
      if (!isEnded) killGroup(child.pid); // the test has failed
      await ended;
    },
  };
}

/** Returns the environment for a stack on these ports, with this folder. */
export function stackSettings(
  ports: ReturnType<typeof freePorts>,
  dataDir: string,
): Record<string, string> {
  return {
    BILLING_API_PORT: `${ports.api}`,
    BILLING_DB_PORT: `${ports.db}`,
    BILLING_WEBHOOK_PORT: `${ports.webhook}`,
    BILLING_WORKER_PORT: `${ports.worker}`,
    BILLING_POSTGREST_PORT: `${ports.postgrest}`,
    BILLING_STACK_DATA: dataDir,
  };
}

/** Kills `deno task` and `start` below it, unless they have just ended. */
function killGroup(id: number): void {
  try {
    Deno.kill(-id, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
