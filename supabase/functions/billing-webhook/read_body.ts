import { DeliveryError } from "../_shared/billing/errors.ts";

/**
 * A refused body is read up to this multiple of the size limit, since many clients do not
 * see a reply that arrives while they are still sending.
 */
const DISCARD_FACTOR = 8;
const DISCARD_TIME_LIMIT_MS = 1_000;

const CANCEL_DELAY_MS = 100;

export type BodyLimits = Readonly<{
  maxBytes: number;
  timeLimitMs: number;
}>;

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;

/**
 * Reads the exact bytes of a request's body, as a stream, because only a stream can be
 * dropped when the time is up (docs/decisions.md).
 *
 * @throws {DeliveryError} `body_too_large`, `body_too_slow`, or
 * `body_incomplete` if the sender goes away.
 */
export async function readBody(
  request: Request,
  limits: BodyLimits,
): Promise<Uint8Array<ArrayBuffer>> {
  const reader = request.body?.getReader();
  if (Number(request.headers.get("content-length")) > limits.maxBytes) {
    await discard(reader, limits);
    throw new DeliveryError("body_too_large");
  }
  if (reader === undefined) return new Uint8Array();

  const { promise: timeIsUp, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new DeliveryError("body_too_slow")),
    limits.timeLimitMs,
  );

  try {
    return await readCounted(reader, limits, timeIsUp);
  } catch (error) {
    if (!(error instanceof DeliveryError)) {
      throw new DeliveryError("body_incomplete");
    }
    if (error.code === "body_too_slow") cancelAfterReply(reader);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function readCounted(
  reader: Reader,
  limits: BodyLimits,
  timeIsUp: Promise<never>,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await Promise.race([reader.read(), timeIsUp]);
    if (done) return takeSingleChunk(chunks) ?? concatenate(chunks, length);

    length += value.byteLength;
    if (length > limits.maxBytes) {
      await discard(reader, limits);
      throw new DeliveryError("body_too_large");
    }
    chunks.push(value);
  }
}

/**
 * Takes the bytes out of a body's only chunk, if nothing else uses its memory: Deno 2.9.6
 * keeps that chunk until a major garbage collection (docs/decisions.md). A clone of the
 * request may be empty afterwards.
 */
function takeSingleChunk(
  chunks: readonly Uint8Array<ArrayBuffer>[],
): Uint8Array<ArrayBuffer> | undefined {
  const [chunk, ...others] = chunks;
  if (chunk === undefined || others.length > 0) return undefined;

  // The memory of a larger buffer may have other users.
  const isWhole = chunk.byteLength === chunk.buffer.byteLength;
  return isWhole ? new Uint8Array(chunk.buffer.transfer()) : undefined;
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

/** Reads the rest of a refused body, within limits. */
export async function discard(
  reader: Reader | undefined,
  { maxBytes }: BodyLimits,
): Promise<void> {
  if (reader === undefined) return;
  const { promise: timeIsUp, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, DISCARD_TIME_LIMIT_MS);

  try {
    let left = DISCARD_FACTOR * maxBytes;
    while (left > 0) {
      const read = await Promise.race([reader.read(), timeIsUp]);
      if (read?.done) return;
      if (read === undefined) break;
      left -= read.value.byteLength;
    }
    cancelAfterReply(reader);
  } catch {
    // The sender has gone away: no one is left to read the reply.
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Drops the rest of a body and closes its connection, after the reply is written. If the
 * body is canceled earlier or never, Deno 2.9.6 keeps the received data for as long as
 * the sender keeps the connection open.
 */
function cancelAfterReply(reader: Reader): void {
  setTimeout(() => reader.cancel().catch(() => {}), CANCEL_DELAY_MS);
}
