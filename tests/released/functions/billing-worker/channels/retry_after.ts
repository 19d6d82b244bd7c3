/**
 * Reads a Retry-After header: seconds or a date (RFC 9110, section 10.2.3).
 *
 * @param nowMs Milliseconds since the epoch.
 * @returns Whole seconds from now; undefined if it is missing or malformed.
 */
export function retryAfterSeconds(
  header: string | null,
  nowMs: number,
): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d{1,9}$/.test(header)
    ? Number(header)
    : Math.ceil((Date.parse(header) - nowMs) / 1000);
  return seconds >= 0 ? seconds : undefined;
}
