import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  request as startRequest,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { finished, pipeline } from "node:stream";
import { waitUntil } from "../common/wait_until.ts";
import {
  type GatewayOptions,
  planRequest,
  type Refusal,
  withoutHeaders,
} from "./gateway_request.ts";

/** A gateway that listens. */
export interface Gateway {
  readonly port: number;
  /** Accepts no more requests, and waits two seconds for those in progress. */
  readonly close: () => Promise<void>;
}

const CLOSE_WITHIN_MS = 2_000;

const NO_ANSWER = { status: 502, message: "The service does not answer" };

/** What concerns one connection only (RFC 9110, section 7.6.1). */
const OF_ONE_CONNECTION = /^(connection|keep-alive|transfer-encoding)$/;

/**
 * Listens on 127.0.0.1 and passes requests on as Supabase's gateway does. A
 * malformed head or chunk is answered with 400 by `node:http`.
 *
 * @param port 0 for any free port
 */
export async function startGateway(
  port: number,
  options: GatewayOptions,
): Promise<Gateway> {
  const server = createServer({
    keepAliveTimeout: 0, // the client's next request could meet the close
    requireHostHeader: false,
  }, (request, reply) => {
    answer(request, reply, options).catch(() => reply.destroy());
  });
  server.on("connect", (_, socket) => {
    socket.end("HTTP/1.1 405 Method Not Allowed\r\nConnection: close\r\n\r\n");
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");

  async function close() {
    let isClosed = false;
    server.close(() => isClosed = true);
    await waitUntil(() => isClosed, { timeoutMs: CLOSE_WITHIN_MS });
    server.closeAllConnections();
  }

  return { port: (server.address() as AddressInfo).port, close };
}

async function answer(
  request: IncomingMessage,
  reply: ServerResponse,
  options: GatewayOptions,
): Promise<void> {
  const plan = await planRequest(request, options);
  if ("status" in plan) return refuse(plan, { request, reply });
  // A connection per request: the service may close a kept one at any time, and
  // a request that meets that cannot be sent again safely.
  const passed = startRequest({
    host: "127.0.0.1",
    port: plan.port,
    path: plan.path,
    method: request.method!,
    headers: plan.headers,
    setHost: false,
    agent: false,
  });
  passed.on("response", (received) => {
    reply.sendDate = false; // the service's own is passed on
    reply.writeHead(
      received.statusCode!,
      received.statusMessage!,
      withoutHeaders(received.rawHeaders, OF_ONE_CONNECTION),
    );
    // An answer that breaks off breaks off for the client too.
    pipeline(received, reply, () => {});
  });
  passed.on("error", () => {
    if (!reply.headersSent) refuse(NO_ANSWER, { request, reply });
  });
  // The rest of a body that the service no longer reads: a client may look for
  // the answer only after it has sent everything.
  passed.on("close", () => request.unpipe(passed).resume());
  reply.on("close", () => passed.destroy());
  request.pipe(passed);
}

/** Answers at once, and closes the connection only after the request's end. */
function refuse(
  { status, message }: Refusal,
  { request, reply }: {
    readonly request: IncomingMessage;
    readonly reply: ServerResponse;
  },
) {
  const body = JSON.stringify({ message });
  reply.writeHead(status, {
    "content-type": "application/json",
    "content-length": body.length,
  });
  reply.write(body);
  finished(request.resume(), () => reply.end());
}
