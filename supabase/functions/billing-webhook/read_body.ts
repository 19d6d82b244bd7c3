import { DeliveryError } from "../_shared/errors.ts";
import { discard, drainBody } from "./drain_body.ts";

/** How much of a body is read, and for how long. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** In milliseconds, for the whole body. */
  readonly timeLimit: number;
}

/**
 * Nearly every event is smaller. What is read in one piece stays in memory for
 * as long as its sender holds the connection, also after the time limit.
 */
const SMALL = 65_536;

/**
 * Reads a request's body as it was sent. Where it says in advance that it is
 * small, HTTP holds the sender to it and the body is read in one piece, which
 * costs a fifth of a stream's reads (docs/decisions.md); else it is counted
 * while it streams.
 *
 * @throws {DeliveryError} `body_too_large`, `body_too_slow`, or
 * `body_incomplete` where the sender went away.
 */
export async function readBody(
  request: Request,
  { maxBytes, timeLimit }: BodyLimits,
): Promise<Uint8Array<ArrayBuffer>> {
  const told = request.headers.get("content-length") ?? "";
  if (Number(told) > maxBytes) {
    await drainBody(request, { maxBytes });
    throw tooLarge(maxBytes);
  }
  const deadline = startDeadline(timeLimit);
  try {
    return isSmall(request, told)
      ? await readWhole(request, { maxBytes, deadline })
      : await readCounted(request, { maxBytes, deadline });
  } catch (error) {
    throw error instanceof DeliveryError ? error : new DeliveryError(
      "body_incomplete",
      "The sender went away in the middle of the body",
    );
  } finally {
    deadline.clear();
  }
}

/**
 * Chunks beside a length make the length void (RFC 9112, section 6.3), and
 * Deno 2.1.4 leaves it among the headers.
 */
function isSmall({ headers }: Request, told: string): boolean {
  return /^\d+$/.test(told) && Number(told) <= SMALL &&
    !headers.has("transfer-encoding");
}

interface Deadline {
  /** Rejects with `body_too_slow` once the time is up. */
  readonly passed: Promise<never>;
  clear(): void;
}

function startDeadline(timeLimit: number): Deadline {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const message = `The body did not arrive within ${timeLimit} ms`;
    reject(new DeliveryError("body_too_slow", message));
  }, timeLimit);
  return { passed: promise, clear: () => clearTimeout(timer) };
}

async function readWhole(
  request: Request,
  { maxBytes, deadline }: { maxBytes: number; deadline: Deadline },
): Promise<Uint8Array<ArrayBuffer>> {
  const body = await Promise.race([request.arrayBuffer(), deadline.passed]);
  if (body.byteLength > maxBytes) throw tooLarge(maxBytes);
  return new Uint8Array(body);
}

async function readCounted(
  request: Request,
  { maxBytes, deadline }: { maxBytes: number; deadline: Deadline },
): Promise<Uint8Array<ArrayBuffer>> {
  const reader = request.body?.getReader();
  if (reader === undefined) return new Uint8Array();
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      const { done, value } = await Promise.race([
        reader.read(),
        deadline.passed,
      ]);
      if (done) return concatenate(chunks, length);
      length += value.byteLength;
      if (length > maxBytes) {
        await discard(reader, { maxBytes });
        throw tooLarge(maxBytes);
      }
      chunks.push(value);
    }
  } finally {
    // Resolves at once for a body that was read to its end.
    reader.cancel().catch(() => {});
  }
}

function tooLarge(maxBytes: number): DeliveryError {
  return new DeliveryError(
    "body_too_large",
    `The body is larger than ${maxBytes} bytes`,
  );
}

function concatenate(
  chunks: readonly Uint8Array[],
  length: number,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}
