import * as z from "zod/mini";

const MAX_IDENTIFIER_LENGTH = 255;
const YEAR_2000 = 946_684_800;
const YEAR_2200 = 7_258_118_400;

/** The largest `integer` of Postgres. */
const MAX_INTEGER = 2_147_483_647;

const NOT_BLANK = /\S/u;
const STORABLE = /^[^\p{Cc}\p{Cs}\u2028\u2029]*$/u;

// The schemas are created when first used, for a fast cold start.

/** An id or a status that Postgres can store and a log line can show. */
export const identifier = z.lazy(() =>
  z.string().check(({ value: input, issues }) => {
    const message = faultOf(input);
    if (message) issues.push({ code: "custom", message, input });
  })
);

function faultOf(text: string): string | undefined {
  // Postgres counts characters, each of which has one or two UTF-16 units.
  const isLong = text.length > 2 * MAX_IDENTIFIER_LENGTH ||
    text.length > MAX_IDENTIFIER_LENGTH &&
      [...text].length > MAX_IDENTIFIER_LENGTH;
  if (isLong) {
    return `must not be longer than ${MAX_IDENTIFIER_LENGTH} characters`;
  }
  if (!NOT_BLANK.test(text)) return "must not be blank";
  return STORABLE.test(text)
    ? undefined
    : "must not contain control characters or lone surrogates";
}

/** Unix time in seconds. The range rejects milliseconds. */
export const unixSeconds = z.lazy(() => {
  const error = "must be in whole Unix seconds, between 2000 and 2200";
  return z.number().check(z.refine(isUnixSeconds, { error }));
});

/**
 * Reads a time in RFC 3339 as ISO 8601 text in UTC. Microseconds, the precision of
 * Postgres, are kept, because they order events.
 */
export const instant = z.lazy(() => {
  const error = "must be a date and time in RFC 3339, between 2000 and 2200";
  const isInRange = (text: string) =>
    isUnixSeconds(Math.floor(Date.parse(text) / 1000));
  return z.pipe(
    z.iso.datetime({ offset: true, error, abort: true })
      .check(z.refine(isInRange, { error })),
    z.transform((text) => {
      const [, fraction = ""] = /\.(\d{1,6})/.exec(text) ?? [];
      const [seconds] = new Date(text).toISOString().split(".");
      return `${seconds}.${fraction.padEnd(3, "0")}Z`;
    }),
  );
});

export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** It follows the path of a field without a colon. */
export const MISSING = "is missing";

/**
 * Returns what is wrong with a field, for zod's option `error`. Without it, or a message
 * in the check, `zod/mini` says "Invalid input".
 */
export function describeFault(
  issue: z.core.$ZodRawIssue,
): string | undefined {
  if (issue.code !== "invalid_type") return undefined;
  if (issue.input === undefined) return MISSING;
  const article = issue.expected === "object" ? "an" : "a";
  return `must be ${article} ${issue.expected}`;
}

export function isIdentifier(value: unknown): value is string {
  return typeof value === "string" && faultOf(value) === undefined;
}

export function isUnixSeconds(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= YEAR_2000 &&
    Number(value) <= YEAR_2200;
}

export function dateTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

export function identifierOrNull(value: unknown): string | null {
  return isIdentifier(value) ? value : null;
}

/**
 * Returns the account in a field: a whole number as text, and blank text as undefined.
 * A number that may have been rounded stays a number, which is not a valid id.
 */
export function accountIn(value: unknown): unknown {
  if (Number.isSafeInteger(value) && Number(value) >= 0) return `${value}`;
  const isBlank = typeof value === "string" && !NOT_BLANK.test(value);
  return isBlank || isAbsent(value) ? undefined : value;
}

export function timeOrNull(value: unknown): string | null {
  return isUnixSeconds(value) ? dateTime(value) : null;
}

/** Returns a computed time as ISO 8601 text; null if it is not between 2000 and 2200. */
export function dateTimeOrNull(milliseconds: number): string | null {
  return isUnixSeconds(Math.floor(milliseconds / 1000))
    ? new Date(milliseconds).toISOString()
    : null;
}

function wholeNumberOrNull(value: unknown, max: number): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 &&
      value <= max
    ? value
    : null;
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null &&
      Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the value at a path in JSON, such as `items.0.id`. */
export function at(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>(member, value);
}

export type Reader = ReturnType<typeof readerOf>;

/** Returns functions that read at a path; all but `get` return null for a malformed value. */
export function readerOf(value: unknown) {
  return {
    get: (path: string) => at(value, path),
    id: (path: string) => identifierOrNull(at(value, path)),
    instant: (path: string) => instant.safeParse(at(value, path)).data ?? null,
    seconds: (path: string) => timeOrNull(at(value, path)),
    count: (path: string) => wholeNumberOrNull(at(value, path), MAX_INTEGER),
    /** An amount in the smallest unit of its currency, sent as a number or as digits. */
    amount(path: string) {
      const amount = at(value, path);
      const isDigits = /^\d{1,15}$/.test(textOf(amount));
      return wholeNumberOrNull(
        isDigits ? Number(amount) : amount,
        Number.MAX_SAFE_INTEGER,
      );
    },
    /** A currency code in lower case, as Stripe has it. */
    currency(path: string) {
      const code = textOf(at(value, path));
      return /^[a-z]{3}$/i.test(code) ? code.toLowerCase() : null;
    },
  };
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

export async function sha256Hex(
  bytes: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
