import {
  type GatewayConnection,
  serveConnection,
} from "./gateway_connection.ts";
import type { GatewayOptions } from "./gateway_plan.ts";
import { waitUntil } from "../common/wait_until.ts";

/** A gateway that listens. */
export type Gateway = {
  port: number;
  /** Takes no more requests, and gives those under way two seconds. */
  close: () => Promise<void>;
};

const CLOSE_WITHIN = 2_000;

/**
 * Listens on 127.0.0.1 and passes requests on as Supabase's gateway does.
 * Bodies and headers stay as they are, byte by byte.
 *
 * @param port 0 for any free one
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
      timeout: CLOSE_WITHIN,
    });
    for (const one of all) one.close();
    await Promise.all(all.map((one) => one.ended));
  }

  const accepting = acceptAll();
  return { port: listener.addr.port, close };
}
