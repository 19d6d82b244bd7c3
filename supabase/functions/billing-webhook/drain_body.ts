/**
 * How much of a body that is refused anyway is read and thrown away: many
 * times the limit, but not for long. Many clients never see an answer that
 * comes while they are still sending, only a broken connection.
 */
const DISCARDED_LIMITS = 8;
const DISCARD_TIME_LIMIT_MS = 1_000;

/** Time for the answer to be written before the connection is closed. */
const LET_GO_AFTER_MS = 100;

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

/** The same for a body that is being read already. */
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
    // The sender went away: there is nobody left to spare.
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Drops the rest of a body and closes its connection, once the answer has been
 * written. Deno 2.9.6 closes it only if the body is canceled after the answer;
 * if it is canceled before, or never, the connection and what was sent stay for
 * as long as the sender likes. Neither version closes the connection of a
 * sender that has fallen silent, but nothing of what it sent is kept.
 */
export function letGo(reader: ReadableStreamDefaultReader<Uint8Array>): void {
  setTimeout(() => reader.cancel().catch(() => {}), LET_GO_AFTER_MS);
}
