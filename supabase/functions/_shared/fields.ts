import { z } from "zod";

const MAX_IDENTIFIER_LENGTH = 255;
const YEAR_2000 = 946_684_800;
const YEAR_2200 = 7_258_118_400;

/**
 * An id or a status: text that Postgres can hold and a log line can show, so
 * no control characters, line separators or lone surrogates.
 */
export const identifier = z.string()
  .max(MAX_IDENTIFIER_LENGTH)
  .regex(/\S/u, "must not be blank")
  .regex(
    /^[^\p{Cc}\p{Cs}\u2028\u2029]*$/u,
    "must not hold control characters or lone surrogates",
  );

/** Unix time in seconds. The range refuses milliseconds. */
export const unixSeconds = z.number().int().min(YEAR_2000).max(YEAR_2200);

/** Whether it can stand as an event's id in the database and in a log line. */
export function isIdentifier(value: unknown): value is string {
  return identifier.safeParse(value).success;
}
