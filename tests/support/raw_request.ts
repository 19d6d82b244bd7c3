/**
 * Requests that no HTTP client would send, written over TCP byte by byte. Each
 * ends within a minute.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import type { Answer } from "./send.ts";

/** A request, byte by byte. */
export interface RawRequest {
  /** The request line's first two words, such as `POST /billing-webhook`. */
  readonly line: string;
  /** Header lines, in their order; two may have the same name. */
  readonly lines?: readonly string[];
  /** Sent as it is. It need not agree with Content-Length. */
  readonly body?: string | Uint8Array;
}

const BYTE_EVERY_MS = 1_000;

/** Returns a delivery as a client would write it. */
export function onTheWire(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string | Uint8Array,
): RawRequest {
  const lines = Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`);
  const length = `Content-Length: ${Buffer.byteLength(body)}`;
  const line = `POST ${new URL(url).pathname}`;
  return { line, lines: [...lines, length], body };
}

/**
 * Sends a request over a connection of its own and reads its answer.
 *
 * @returns undefined if the connection was closed without an answer
 */
export async function rawRequest(
  url: string,
  request: RawRequest,
): Promise<Answer | undefined> {
  using connection = await connectTo(url);
  const sent = connection.send(request);
  const answer = await connection.readAnswer();
  await sent;
  return answer;
}

/** Sends a request that has to be answered. */
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
 * @param after Awaited before the connection is closed.
 */
export async function abandonedRequest(
  url: string,
  request: RawRequest,
  after = () => Promise.resolve(),
): Promise<void> {
  using connection = await connectTo(url);
  await connection.send(request);
  await after();
}

/**
 * Promises a body, sends a byte of it every second, waits for the answer, and
 * goes on sending until the server closes the connection.
 *
 * @param options.isSilent Sends no byte, and does not wait for the end of the
 * connection: nothing in Deno closes it.
 * @returns the status of the answer
 */
export async function slowRequest(
  url: string,
  { isChunked = false, isSilent = false }: {
    isChunked?: boolean;
    isSilent?: boolean;
  } = {},
): Promise<number> {
  using connection = await connectTo(url);
  await connection.send({
    line: `POST ${new URL(url).pathname}`,
    lines: [isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000"],
  });
  const trickle = setInterval(() => {
    if (!isSilent) connection.write(isChunked ? "1\r\nx\r\n" : "x");
  }, BYTE_EVERY_MS);
  try {
    const status = (await connection.readAnswer())?.status ?? 0;
    if (!isSilent) await connection.closedByServer();
    return status;
  } finally {
    clearInterval(trickle);
  }
}

/** Opens a connection, which is closed after a minute, whatever happens. */
async function connectTo(url: string) {
  const { hostname, port } = new URL(url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  let isOver = false;
  const timer = setTimeout(() => {
    isOver = true;
    connection.close();
  }, HANG_LIMIT_MS);
  const checkTime = () => {
    if (isOver) {
      throw new Error(`${url}: no end of the answer in ${HANG_LIMIT_MS} ms`);
    }
  };

  /** If the server has answered and closed already, the answer tells. */
  async function write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? Buffer.from(data, "latin1") : data;
    try {
      for (let at = 0; at < bytes.length;) {
        at += await connection.write(bytes.subarray(at));
      }
    } catch { /* See above. */ }
  }

  async function send({ line, lines = [], body = "" }: RawRequest) {
    const head = [`${line} HTTP/1.1`, "Host: localhost", ...lines];
    await write(`${head.join("\r\n")}\r\nConnection: close\r\n\r\n`);
    await write(body);
  }

  async function readAnswer(): Promise<Answer | undefined> {
    let text = "";
    const space = new Uint8Array(16_384);
    const decoder = new TextDecoder();
    try {
      // A server that still waits for the body leaves the connection open.
      while (!isComplete(text)) {
        const length = await connection.read(space);
        if (length === null) break;
        text += decoder.decode(space.subarray(0, length), { stream: true });
      }
    } catch { /* Closed with bytes unread; what came before that counts. */ }
    checkTime();
    return parseAnswer(text);
  }

  async function closedByServer(): Promise<void> {
    const space = new Uint8Array(16);
    while (await connection.read(space).catch(() => null) !== null);
    checkTime();
  }

  return {
    write,
    send,
    readAnswer,
    closedByServer,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      if (!isOver) connection.close();
    },
  };
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
