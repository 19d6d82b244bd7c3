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
}

const CLOSE_WITHIN_MS = 2_000;

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

  const accepting = acceptAll();
  return { port: listener.addr.port, close };
}
