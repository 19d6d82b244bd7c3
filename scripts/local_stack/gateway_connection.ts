import { createByteReader } from "./byte_reader.ts";
import { copyBody } from "./copy_body.ts";
import { gatewayAnswer, type GatewayStatus } from "./gateway_answers.ts";
import { type GatewayOptions, planRequest } from "./gateway_plan.ts";
import { decodeLatin1, encodeLatin1 } from "./latin1.ts";
import { parseRequestHead } from "./request_head.ts";
import { writeAll } from "./write_all.ts";

/** A client's connection while it is served. */
export type GatewayConnection = {
  /** Whether a request was passed on and no answer has come yet. */
  isWaiting: () => boolean;
  close: () => void;
  ended: Promise<void>;
};

type Upstream = {
  port: number;
  connection: Deno.TcpConn;
  relayed: Promise<void>;
};

const CHUNK = 65_536;
const LINGER = 2_000;

/**
 * Serves a client. Each connection of a client's has one of its own to the
 * service, and what comes back on that is passed on unread: so answers, early
 * ones too, and closed connections reach the other side as they would without
 * a gateway, and the gateway costs little.
 *
 * What cannot work so is a request for another service before the answer to
 * the last one has begun; such a connection is closed.
 */
export function serveConnection(
  client: Deno.TcpConn,
  options: GatewayOptions,
): GatewayConnection {
  const reader = createByteReader(client);
  let upstream: Upstream | undefined;
  let waiting = false;
  let lingering: ReturnType<typeof setTimeout> | undefined;

  async function serve() {
    try {
      await passRequests();
    } catch {
      // Malformed, or one side is gone: nothing more can be passed on. What
      // the service has answered still is, while the rest is read.
      await dropRest();
    }
    await upstream?.relayed;
    close();
  }

  async function passRequests() {
    for (;;) {
      const head = await reader.readUntil("\r\n\r\n", CHUNK);
      if (!head) return endRequests();
      const request = parseRequestHead(decodeLatin1(head));
      if (!request) return await refuse(400);
      const plan = await planRequest(request, options);
      if ("status" in plan) return await refuse(plan.status);
      const service = await connect(plan.port);
      if (!service) return await refuse(502);
      waiting = true;
      await writeAll(service, encodeLatin1(plan.head));
      try {
        await copyBody(
          request.body,
          reader,
          (bytes) => writeAll(service, bytes),
        );
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        return await refuseBody();
      }
    }
  }

  async function connect(port: number): Promise<Deno.TcpConn | undefined> {
    if (upstream?.port === port) return upstream.connection;
    if (waiting) throw new Error("Cannot change the service while it works");
    leaveUpstream();
    try {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      connection.setNoDelay();
      upstream = { port, connection, relayed: relay(connection) };
      return connection;
    } catch {
      return undefined;
    }
  }

  async function relay(from: Deno.TcpConn) {
    const space = new Uint8Array(CHUNK);
    try {
      for (;;) {
        const length = await from.read(space);
        if (length === null) break;
        waiting = false;
        await writeAll(client, space.subarray(0, length));
      }
    } catch {
      // One side is gone, which the other learns below.
    }
    if (upstream?.connection !== from) return;
    if (waiting) await writeAll(client, gatewayAnswer(502)).catch(() => {});
    waiting = false;
    await endAnswers();
  }

  // The service has a part of the body: without its connection it drops that.
  async function refuseBody() {
    const isAnswered = !waiting;
    leaveUpstream();
    waiting = false;
    if (isAnswered) return;
    await refuse(400);
  }

  async function refuse(status: GatewayStatus) {
    if (waiting) throw new Error("Cannot answer before the service has");
    leaveUpstream();
    await writeAll(client, gatewayAnswer(status));
    await endAnswers();
    await dropRest();
  }

  // To close while bytes of the client's wait unread would reset the
  // connection, and the client could lose the answer: so the end is sent
  // first, and the client has a moment to see it.
  async function endAnswers() {
    await client.closeWrite().catch(() => {});
    lingering = setTimeout(() => closeQuietly(client), LINGER);
  }

  function endRequests() {
    if (!waiting) return leaveUpstream();
    upstream?.connection.closeWrite().catch(() => {});
  }

  async function dropRest() {
    while (await reader.readSome(CHUNK).catch(() => undefined));
    endRequests();
  }

  function leaveUpstream() {
    const previous = upstream;
    upstream = undefined;
    closeQuietly(previous?.connection);
  }

  function close() {
    clearTimeout(lingering);
    leaveUpstream();
    closeQuietly(client);
  }

  return { isWaiting: () => waiting, close, ended: serve() };
}

function closeQuietly(connection: Deno.TcpConn | undefined) {
  try {
    connection?.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
