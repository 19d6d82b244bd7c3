import { waitUntil } from "../../scripts/local_stack/wait_until.ts";

/**
 * How long a test waits for what has to happen, in milliseconds. It is there to
 * end a test that hangs, so it is more than any machine needs, and than the minute
 * for which a killed worker holds its queue. No assertion may depend on it.
 */
export const HANG_LIMIT_MS = 120_000;

/** Waits for something that might never happen; then the error names it. */
export async function limited<T>(
  promise: Promise<T>,
  what: string,
  { withinMs = HANG_LIMIT_MS }: { withinMs?: number } = {},
): Promise<T> {
  const { promise: isOver, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`Waited ${withinMs} ms for ${what}`)),
    withinMs,
  );
  try {
    return await Promise.race([promise, isOver]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits until something is there, or a condition holds, and returns it. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  what: () => string = () => `${look}`,
): Promise<Exclude<T, undefined | false>> {
  let found: T | undefined;
  const isThere = async () => Boolean(found = await look());
  const options = { timeoutMs: HANG_LIMIT_MS, intervalMs: 5 };
  if (!await waitUntil(isThere, options)) throw new Error(`Never: ${what()}`);
  return found as Exclude<T, undefined | false>;
}
