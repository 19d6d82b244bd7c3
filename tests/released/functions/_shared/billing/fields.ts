import { z } from "zod";

const MAX_IDENTIFIER_LENGTH = 255;
const YEAR_2000 = 946_684_800;
const YEAR_2200 = 7_258_118_400;

/**
 * An id or a status. Postgres must be able to store it and a log line to show
 * it: no control characters, line separators or lone surrogates.
 */
export const identifier = z.string()
  .max(
    MAX_IDENTIFIER_LENGTH,
    `must not be longer than ${MAX_IDENTIFIER_LENGTH} characters`,
  )
  .regex(/\S/u, "must not be blank")
  .regex(
    /^[^\p{Cc}\p{Cs}\u2028\u2029]*$/u,
    "must not contain control characters or lone surrogates",
  );

/** Unix time in seconds. The range rejects milliseconds. */
export const unixSeconds = z.number()
  .int("must be a whole number under 2^53")
  .min(YEAR_2000, "must not be before 2000, in Unix seconds")
  .max(YEAR_2200, "must not be after 2200, in Unix seconds");

/** The message for a missing field. It follows the path without a colon. */
export const MISSING = "is missing";

const TYPES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  object: "an object",
  array: "a list",
  tuple: "a list",
};

/**
 * Returns what is wrong with a field, for zod's option `error`. Zod's own
 * message for a missing field is "received undefined".
 */
export function describeFault(
  issue: z.core.$ZodRawIssue,
): string | undefined {
  if (issue.code !== "invalid_type") return undefined;
  if (issue.input === undefined) return MISSING;
  return `must be ${TYPES[issue.expected] ?? issue.expected}`;
}

/** Returns whether a value is a usable id, for the database and for a log line. */
export function isIdentifier(value: unknown): value is string {
  return identifier.safeParse(value).success;
}

/** Returns a member of a JSON value; undefined if it has none of that name. */
export function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null &&
      Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
