import { freePort } from "../tests/support/free_port.ts";
import { isListening } from "../scripts/common/is_listening.ts";
import { spawnGuarded } from "../scripts/common/spawn_guarded.ts";
import { waitUntil } from "../scripts/common/wait_until.ts";
import { SECRET } from "./targets.ts";

/** A server beside this receiver, in a process of its own. */
export interface Peer extends AsyncDisposable {
  readonly port: number;
}

const READY_WITHIN = 60_000;

/** Serves an entry point with the packages of `bench/peers` alone. */
export async function servePeer(
  entry: string,
  databaseUrl: string,
): Promise<Peer> {
  const port = freePort();
  const { child, ended } = spawnGuarded({
    command: Deno.execPath(),
    args: [
      ...["serve", "--quiet", "-A", "--no-check", "--no-config", "--no-lock"],
      ...["--import-map", "bench/peers/import_map.json"],
      ...["--host", "127.0.0.1", "--port", String(port), entry],
    ],
    stopSignal: "SIGTERM",
    options: {
      env: { DATABASE_URL: databaseUrl, STRIPE_WEBHOOK_SECRET: SECRET },
      stdout: "null",
      stderr: "inherit",
    },
  });
  const isUp = await waitUntil(() => isListening(port), {
    timeoutMs: READY_WITHIN,
  });
  if (!isUp) throw new Error(`Cannot measure: ${entry} does not start`);
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
