import { setTimeout as sleep } from "node:timers/promises";
import {
  type GatewayConnection,
  serveConnection,
} from "./gateway_connection.ts";
import type { GatewayOptions } from "./gateway_request.ts";
import { waitUntil } from "../common/wait_until.ts";

/** A gateway that listens. */
export interface Gateway {
  readonly port: number;
  /** Accepts no more requests, and waits two seconds for those in progress. */
  readonly close: () => Promise<void>;
  /**
   * Waits until no client waits for an answer from a service that gets no more
   * requests, and closes the connections to it.
   */
  readonly leave: (port: number) => Promise<void>;
}

const CLOSE_WITHIN_MS = 2_000;

/** Every delivery is answered within ten seconds. */
const LEAVE_WITHIN_MS = 15_000;

/** For the rest of an answer, and for the log lines of the last second. */
const QUIET_MS = 1_200;

/**
 * Listens on 127.0.0.1 and passes requests on as Supabase's gateway does.
 * Bodies and headers stay the same, byte by byte.
 *
 * @param port 0 for any free port
 */
export function startGateway(port: number, options: GatewayOptions): Gateway {
  const listener = Deno.listen({ hostname: "127.0.0.1", port });
  const connections = new Set<GatewayConnection>();

  async function acceptAll() {
    for await (const client of listener) {
      client.setNoDelay();
      const connection = serveConnection(client, options);
      connections.add(connection);
      connection.ended.finally(() => connections.delete(connection));
    }
  }

  async function close() {
    listener.close();
    await accepting;
    const all = [...connections];
    await waitUntil(() => !all.some((one) => one.isWaiting()), {
      timeoutMs: CLOSE_WITHIN_MS,
    });
    for (const one of all) one.close();
    await Promise.all(all.map((one) => one.ended));
  }

  async function leave(port: number) {
    await waitUntil(
      () => ![...connections].some((one) => one.isWaiting(port)),
      {
        timeoutMs: LEAVE_WITHIN_MS,
      },
    );
    await sleep(QUIET_MS);
    for (const one of connections) one.leave(port);
  }

  const accepting = acceptAll();
  return { port: listener.addr.port, close, leave };
}
