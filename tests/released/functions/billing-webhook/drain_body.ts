/**
 * How much of a refused body is read and discarded: many times the limit, but
 * not for long. Many clients do not see a reply that arrives while they are
 * still sending; they see a broken connection.
 */
const DISCARDED_LIMITS = 8;
const DISCARD_TIME_LIMIT_MS = 1_000;

/** Leaves time to write the reply before the connection is closed. */
const LET_GO_AFTER_MS = 100;

/**
 * Reads and discards the body of a refused request, up to the limits above.
 */
export async function drainBody(
  request: Request,
  { maxBytes }: { maxBytes: number },
): Promise<void> {
  const reader = request.body?.getReader();
  if (reader !== undefined) await discard(reader, { maxBytes });
}

/** Reads and discards the rest of a body, up to the limits above. */
export async function discard(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { maxBytes }: { maxBytes: number },
): Promise<void> {
  const { promise: timeIsUp, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, DISCARD_TIME_LIMIT_MS);
  try {
    let left = DISCARDED_LIMITS * maxBytes;
    while (left > 0) {
      const read = await Promise.race([reader.read(), timeIsUp]);
      if (read?.done) return;
      if (read === undefined) break;
      left -= read.value.byteLength;
    }
    letGo(reader);
  } catch {
    // The sender has gone away: no one is left to read the reply.
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Drops the rest of a body and closes its connection, after the reply is
 * written. Deno 2.9.6 closes it only if the body is canceled after the reply. If
 * it is canceled before or never, the connection and the received data stay for
 * as long as the sender likes. Neither Deno 2.9.6 nor 2.1.4 closes the
 * connection of a sender that has stopped sending, but its data is not kept.
 */
export function letGo(reader: ReadableStreamDefaultReader<Uint8Array>): void {
  setTimeout(() => reader.cancel().catch(() => {}), LET_GO_AFTER_MS);
}
