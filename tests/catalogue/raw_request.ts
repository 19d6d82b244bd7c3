/** Requests that no HTTP client would send, written over TCP byte by byte. */
import { Buffer } from "node:buffer";
import { limited } from "../support/hang_limit.ts";
import type { Answer } from "../support/send.ts";

export interface RawRequest {
  readonly line: string;
  readonly lines?: readonly string[];
  /** Sent as it is. It need not agree with Content-Length. */
  readonly body?: string | Uint8Array;
}

const BYTE_EVERY_MS = 1_000;

export function onTheWire(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string | Uint8Array,
): RawRequest {
  const length = { "Content-Length": Buffer.byteLength(body) };
  const lines = Object.entries({ ...headers, ...length })
    .map(([name, value]) => `${name}: ${value}`);
  return { line: `POST ${new URL(url).pathname}`, lines, body };
}

/** Returns the answer; undefined if the connection was closed without one. */
export function rawRequest(
  url: string,
  request: RawRequest,
): Promise<Answer | undefined> {
  return connected(url, request, async (connection, sent) => {
    const answer = await readAnswer(connection);
    await sent;
    return answer;
  });
}

export function abandonedRequest(url: string, request: RawRequest) {
  return connected(url, request, (_, sent) => sent);
}

/**
 * Promises a body, sends a byte of it every second, waits for the answer, and
 * goes on sending until the server closes the connection. With `isSilent`, it sends
 * no byte and does not wait for that end: nothing in Deno closes it.
 */
export function slowRequest(
  url: string,
  { isChunked = false, isSilent = false } = {},
): Promise<number | undefined> {
  const request = {
    line: `POST ${new URL(url).pathname}`,
    lines: [isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000"],
  };
  return connected(url, request, async (connection) => {
    const byte = Buffer.from(isChunked ? "1\r\nx\r\n" : "x");
    const trickle = setInterval(() => {
      if (!isSilent) write(connection, byte);
    }, BYTE_EVERY_MS);
    try {
      const answer = await readAnswer(connection);
      const isOpen = async () =>
        await connection.read(new Uint8Array(16)).catch(() => null) !== null;
      while (!isSilent && await isOpen());
      return answer?.status;
    } finally {
      clearInterval(trickle);
    }
  });
}

async function connected<T>(
  url: string,
  { line, lines = [], body = "" }: RawRequest,
  use: (connection: Deno.TcpConn, sent: Promise<void>) => Promise<T>,
): Promise<T> {
  const { hostname, port } = new URL(url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const head = [`${line} HTTP/1.1`, "Host: localhost", ...lines].join("\r\n");
  const bytes = [
    Buffer.from(`${head}\r\nConnection: close\r\n\r\n`, "latin1"),
    Buffer.from(body as string),
  ];
  const sent = write(connection, Buffer.concat(bytes));
  return await limited(use(connection, sent), `the end of a request to ${url}`);
}

/** If the server has answered and closed already, the answer tells. */
async function write(connection: Deno.TcpConn, bytes: Uint8Array) {
  const writer = connection.writable.getWriter();
  await writer.write(bytes as Uint8Array<ArrayBuffer>).catch(() => {});
  writer.releaseLock();
}

/** A server that still waits for the body leaves the connection open. */
async function readAnswer(
  connection: Deno.TcpConn,
): Promise<Answer | undefined> {
  const space = new Uint8Array(16_384);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const length = await connection.read(space);
      if (length === null) break;
      text += decoder.decode(space.subarray(0, length), { stream: true });
      const { headers, body = "" } = parseAnswer(text) ?? {};
      if (body.length >= Number(headers?.get("content-length") ?? NaN)) break;
    }
  } catch { /* Closed with bytes unread; what came before that counts. */ }
  return parseAnswer(text);
}

function parseAnswer(text: string): Answer | undefined {
  const [, status, head = "", body = ""] =
    /^HTTP\/1\.1 (\d{3}).*\r\n((?:.+\r\n)*)\r\n([^]*)$/.exec(text) ?? [];
  if (!status) return undefined;
  const fields = Array.from(
    head.matchAll(/^(.+?): *(.*)\r$/gm),
    ([, name, value]) => [name, value] as [string, string],
  );
  return { status: Number(status), headers: new Headers(fields), body };
}
