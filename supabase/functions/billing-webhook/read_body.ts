import { DeliveryError } from "../_shared/errors.ts";

/** How much of a body is read, and for how long. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** In milliseconds, for the whole body. */
  readonly timeLimit: number;
}

/**
 * How much of a body that is refused anyway is read and thrown away: many
 * times the limit, but not for long. Many clients never see an answer that
 * comes while they are still sending, only a broken connection.
 */
const DISCARDED_LIMITS = 8;
const DISCARD_TIME_LIMIT = 1_000;

/**
 * Reads a request's body as it was sent, counting while it streams.
 *
 * @throws {DeliveryError} `body_too_large`, `body_too_slow`, or
 * `body_incomplete` where the sender went away.
 */
export async function readBody(
  request: Request,
  { maxBytes, timeLimit }: BodyLimits,
): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(request.headers.get("content-length")) > maxBytes) {
    await drainBody(request, { maxBytes });
    throw tooLarge(maxBytes);
  }
  const reader = request.body?.getReader();
  if (reader === undefined) return new Uint8Array();

  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    reader.cancel().catch(() => {});
  }, timeLimit);
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (expired) throw new Error("out of time");
      if (done) return concatenate(chunks, length);
      length += value.byteLength;
      if (length > maxBytes) {
        await discard(reader, { maxBytes });
        throw tooLarge(maxBytes);
      }
      chunks.push(value);
    }
  } catch (error) {
    if (error instanceof DeliveryError) throw error;
    throw expired
      ? new DeliveryError(
        "body_too_slow",
        `The body did not arrive within ${timeLimit} ms`,
      )
      : new DeliveryError(
        "body_incomplete",
        "The sender went away in the middle of the body",
      );
  } finally {
    clearTimeout(timer);
    // Resolves at once for a body that was read to its end.
    reader.cancel().catch(() => {});
  }
}

/**
 * Reads the body of a request that is refused and throws it away, as far as
 * that does not take long.
 */
export async function drainBody(
  request: Request,
  { maxBytes }: { maxBytes: number },
): Promise<void> {
  const reader = request.body?.getReader();
  if (reader !== undefined) await discard(reader, { maxBytes });
}

async function discard(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { maxBytes }: { maxBytes: number },
): Promise<void> {
  const cancel = () => reader.cancel().catch(() => {});
  const timer = setTimeout(cancel, DISCARD_TIME_LIMIT);
  try {
    let left = DISCARDED_LIMITS * maxBytes;
    while (left > 0) {
      const { done, value } = await reader.read();
      if (done) break;
      left -= value.byteLength;
    }
  } catch {
    // The sender went away: there is nobody left to spare.
  } finally {
    clearTimeout(timer);
    await cancel();
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
