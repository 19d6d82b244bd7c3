import {
  createByteReader,
  decodeLatin1,
  READ_SIZE_BYTES,
  writeAll,
} from "./bytes.ts";
import {
  gatewayAnswer,
  type GatewayOptions,
  type GatewayStatus,
  planRequest,
} from "./gateway_request.ts";
import {
  copyBody,
  headerValues,
  parseRequestHead,
  type RequestHead,
} from "./http_request.ts";

/** A client's connection while it is served. */
export interface GatewayConnection {
  /**
   * Whether a request was passed on, to that port or any, and its answer has
   * not begun.
   */
  readonly isWaiting: (port?: number) => boolean;
  /** Closes the connection to the service on that port, unless it is needed. */
  readonly leave: (port: number) => void;
  readonly close: () => void;
  readonly ended: Promise<void>;
}

interface Upstream {
  readonly port: number;
  readonly connection: Deno.TcpConn;
  readonly relayed: Promise<void>;
}

const MAX_HEAD_BYTES = 65_536;
const LINGER_MS = 2_000;

/**
 * Serves a client. Each of a client's connections is paired with a connection
 * to the service, and the answers on that one are passed on unread. So early
 * answers and closed connections reach the other side as they would without a
 * gateway, and the gateway costs little.
 *
 * One thing cannot work this way: a request for another service before the
 * last answer has begun. Such a connection is closed.
 *
 * After HEAD, PostgREST 12 closes its connection without announcing it. So the
 * next request gets a new one, and the client's stays open.
 */
export function serveConnection(
  client: Deno.TcpConn,
  options: GatewayOptions,
): GatewayConnection {
  const reader = createByteReader(client);
  let upstream: Upstream | undefined;
  let waiting = false;
  /** Whether the service may close, and the client does not expect it. */
  let isAfterHead = false;
  let lingering: ReturnType<typeof setTimeout> | undefined;

  async function serve() {
    try {
      await passRequests();
    } catch {
      // Malformed, or one side is gone: no more requests are passed on, but
      // the answers to earlier ones still are.
      await dropRest();
    }
    await upstream?.relayed;
    close();
  }

  async function passRequests() {
    for (;;) {
      const head = await reader.readUntil("\r\n\r\n", MAX_HEAD_BYTES);
      if (!head) return endRequests();
      const request = parseRequestHead(decodeLatin1(head));
      if (!request) return await refuse(400);
      const plan = await planRequest(request, options);
      if ("status" in plan) return await refuse(plan.status);
      const service = await connect(plan.port);
      if (!service) return await refuse(502);
      waiting = true;
      isAfterHead = isHeadKeptAlive(request);
      await writeAll(service, plan.head);
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
    const isUsable = waiting || !isAfterHead;
    if (upstream?.port === port && isUsable) return upstream.connection;
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
    const space = new Uint8Array(READ_SIZE_BYTES);
    try {
      for (;;) {
        const length = await from.read(space);
        if (length === null) break;
        waiting = false;
        await writeAll(client, space.subarray(0, length));
      }
    } catch {
      // One side is gone; the other is told below.
    }
    if (upstream?.connection !== from) return;
    if (isAfterHead && !waiting) return leaveUpstream();
    if (waiting) await writeAll(client, gatewayAnswer(502)).catch(() => {});
    waiting = false;
    await endAnswers();
  }

  // The service has part of the body: closing its connection makes it drop that.
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

  // Closing while bytes from the client are unread would reset the connection,
  // and the client could lose the answer. So the end is sent first, and the
  // client has a moment to see it.
  async function endAnswers() {
    await client.closeWrite().catch(() => {});
    lingering = setTimeout(() => closeQuietly(client), LINGER_MS);
  }

  function endRequests() {
    if (!waiting) return leaveUpstream();
    upstream?.connection.closeWrite().catch(() => {});
  }

  async function dropRest() {
    while (await reader.readSome(READ_SIZE_BYTES).catch(() => undefined));
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

  return {
    isWaiting: (port) =>
      waiting && (port === undefined || upstream?.port === port),
    leave: (port) => {
      if (!waiting && upstream?.port === port) leaveUpstream();
    },
    close,
    ended: serve(),
  };
}

/** Whether the client expects to send another request after this HEAD. */
function isHeadKeptAlive({ method, version, lines }: RequestHead): boolean {
  return method === "HEAD" && version === "HTTP/1.1" &&
    !headerValues(lines, "connection").some((value) => /close/i.test(value));
}

function closeQuietly(connection: Deno.TcpConn | undefined) {
  try {
    connection?.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
