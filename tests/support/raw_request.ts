/**
 * Requests that no HTTP client would send, written over TCP byte by byte.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { Answer } from "./send.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";

/** A request, byte by byte. */
export interface RawRequest {
  /** The request line's first two words, such as `POST /billing-webhook`. */
  readonly line: string;
  /** Header lines, in their order; two may have the same name. */
  readonly headers?: readonly string[];
  /** Sent as it is. It need not agree with Content-Length. */
  readonly body?: string | Uint8Array;
}

const BYTE_EVERY_MS = 1_000;

/** Returns headers as the lines of a request. */
export function headerLines(
  headers: Readonly<Record<string, string>>,
): string[] {
  return Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
}

/**
 * Sends a request over a connection of its own and reads its answer.
 *
 * @returns undefined if the connection was closed without an answer.
 */
export async function rawRequest(
  url: string,
  request: RawRequest,
): Promise<Answer | undefined> {
  using connection = await connectTo(url);
  const sent = send(connection, request);
  const answer = await readAnswer(connection);
  await sent;
  return answer;
}

/**
 * Sends a request that has to be answered.
 *
 * @throws {Error} If the connection was closed without an answer.
 */
export async function answered(
  url: string,
  request: RawRequest,
): Promise<Answer> {
  const answer = await rawRequest(url, request);
  if (answer === undefined) throw new Error("The server closed without a word");
  return answer;
}

/**
 * Sends a request, or the beginning of one, and closes the connection.
 *
 * @param options.after Awaited before the connection is closed.
 */
export async function abandonedRequest(
  url: string,
  request: RawRequest,
  { after = () => Promise.resolve() }: { after?: () => Promise<void> } = {},
): Promise<void> {
  using connection = await connectTo(url);
  await send(connection, request);
  await after();
}

/**
 * Promises a body, sends a byte of it every second, waits for the answer, and
 * goes on sending until the server closes the connection.
 *
 * @param options.isChunked Sends chunks instead of promising a length.
 * @param options.isSilent Sends no byte, and does not wait for the end of the
 * connection: nothing in Deno closes it.
 * @returns the status of the answer
 * @throws {Error} If the server does not close the connection.
 */
export async function slowRequest(
  url: string,
  { isChunked = false, isSilent = false }: {
    isChunked?: boolean;
    isSilent?: boolean;
  } = {},
): Promise<number> {
  using connection = await connectTo(url);
  await send(connection, {
    line: `POST ${new URL(url).pathname}`,
    headers: [
      isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000",
    ],
  });
  const byte = Buffer.from(isChunked ? "1\r\nx\r\n" : "x");
  const trickle = setInterval(() => {
    if (!isSilent) connection.write(byte).catch(() => {});
  }, BYTE_EVERY_MS);
  try {
    const status = (await readAnswer(connection))?.status ?? 0;
    if (!isSilent) await closedByServer(connection);
    return status;
  } finally {
    clearInterval(trickle);
  }
}

async function connectTo(url: string): Promise<Deno.TcpConn> {
  const { hostname, port } = new URL(url);
  return await Deno.connect({ hostname, port: Number(port) });
}

async function send(
  connection: Deno.TcpConn,
  { line, headers = [], body = "" }: RawRequest,
): Promise<void> {
  const head = [`${line} HTTP/1.1`, "Host: localhost", ...headers];
  const text = `${head.join("\r\n")}\r\nConnection: close\r\n\r\n`;
  try {
    for (const part of [text, body]) {
      const bytes = typeof part === "string"
        ? Buffer.from(part, "latin1")
        : part;
      for (let at = 0; at < bytes.length;) {
        at += await connection.write(bytes.subarray(at));
      }
    }
  } catch {
    // The server has answered and closed already: the answer tells.
  }
}

async function readAnswer(
  connection: Deno.TcpConn,
): Promise<Answer | undefined> {
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    connection.close();
  }, HANG_LIMIT_MS);
  let text = "";
  const space = new Uint8Array(16_384);
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const length = await connection.read(space);
      if (length === null) break;
      text += decoder.decode(space.subarray(0, length), { stream: true });
      // A server that still waits for the body leaves the connection open.
      if (isComplete(text)) break;
    }
  } catch {
    // Closed with bytes unread; what came before that counts.
  } finally {
    clearTimeout(timer);
  }
  if (expired) throw new Error(`No answer within ${HANG_LIMIT_MS} ms`);
  return parseAnswer(text);
}

async function closedByServer(connection: Deno.TcpConn): Promise<void> {
  const { promise: timeIsUp, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(() => resolve(false), HANG_LIMIT_MS);
  const ended = connection.read(new Uint8Array(16))
    .then((length) => length === null, () => true);
  const isClosed = await Promise.race([ended, timeIsUp]);
  clearTimeout(timer);
  if (!isClosed) throw new Error("The server left the connection open");
}

function isComplete(text: string): boolean {
  const answer = parseAnswer(text);
  const length = answer?.headers.get("content-length") ?? "";
  return length !== "" && answer!.body.length >= Number(length);
}

function parseAnswer(text: string): Answer | undefined {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [line = "", ...fields] = head.split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1]);
  if (!status) return undefined;
  const headers = new Headers(fields.map((field) => {
    const at = field.indexOf(":");
    return [field.slice(0, at), field.slice(at + 1).trim()];
  }));
  return { status, headers, body: rest.join("\r\n\r\n") };
}
