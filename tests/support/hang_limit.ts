/**
 * How long a test waits for what has to happen, in milliseconds. It is there to
 * end a test that hangs, so it is more than any machine needs. Nothing that a
 * test asserts may depend on it.
 */
export const HANG_LIMIT_MS = 60_000;
