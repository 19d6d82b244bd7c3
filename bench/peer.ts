import { freePort } from "../tests/support/free_port.ts";
import { isListening } from "../scripts/common/is_listening.ts";
import { spawnGroup } from "../scripts/common/spawn_group.ts";
import type { Environment } from "../scripts/common/environment.ts";
import { waitUntil } from "../scripts/common/wait_until.ts";
import { SECRET } from "./targets.ts";

/** A server beside this receiver, in a process of its own. */
export interface Peer extends AsyncDisposable {
  readonly port: number;
}

/** What to serve. */
export interface PeerOptions {
  readonly entry: string;
  /** `serve` if it exports a handler, `run` if it starts a server. */
  readonly command: "serve" | "run";
  /** Its settings, such as `DATABASE_URL`. */
  readonly env?: Environment;
}

// The first start downloads its packages.
const READY_WITHIN = 120_000;

/**
 * Serves an entry point with the packages of `bench/peers` alone. A call of
 * Stripe's API would fail.
 */
export async function servePeer(
  { entry, command, env = {} }: PeerOptions,
): Promise<Peer> {
  const port = freePort();
  const { child, ended } = spawnGroup({
    command: Deno.execPath(),
    args: [
      ...[command, "--quiet", "-A", "--deny-net=api.stripe.com"],
      ...["--no-check", "--no-config", "--no-lock"],
      ...["--import-map", "bench/peers/import_map.json", entry],
    ],
    options: {
      env: {
        DENO_SERVE_ADDRESS: `tcp:127.0.0.1:${port}`,
        STRIPE_WEBHOOK_SECRET: SECRET,
        ...env,
      },
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
