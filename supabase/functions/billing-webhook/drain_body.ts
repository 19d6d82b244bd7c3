/**
 * How much of a body that is refused anyway is read and thrown away: many
 * times the limit, but not for long. Many clients never see an answer that
 * comes while they are still sending, only a broken connection.
 */
const DISCARDED_LIMITS = 8;
const DISCARD_TIME_LIMIT = 1_000;

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
