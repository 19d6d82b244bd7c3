const MAX_IDENTIFIER_LENGTH = 255;
const YEAR_2000 = 946_684_800;
const YEAR_2200 = 7_258_118_400;

/** The largest `integer` of Postgres. */
const MAX_INTEGER = 2_147_483_647;

const NOT_BLANK = /\S/u;
const STORABLE = /^[^\p{Cc}\p{Cs}\u2028\u2029]*$/u;

/** Why a value is not valid, in words that follow its path. */
export class Fault {
  constructor(readonly text: string) {}
}

/** Returns a value as it is used, or why it is not valid. */
export type Check<T> = (value: unknown) => T | Fault;

function mustBe(expected: string, value: unknown): Fault {
  return new Fault(
    value === undefined ? " is missing" : `: must be ${expected}`,
  );
}

/**
 * An id or a status. Postgres must be able to store it and a log line to show
 * it: no control characters, line separators or lone surrogates.
 */
export const identifier: Check<string> = (value) => {
  if (typeof value !== "string") return mustBe("a string", value);
  if (!isShort(value)) {
    const fault = `must not be longer than ${MAX_IDENTIFIER_LENGTH} characters`;
    return new Fault(`: ${fault}`);
  }
  if (!NOT_BLANK.test(value)) return new Fault(": must not be blank");
  return STORABLE.test(value)
    ? value
    : new Fault(": must not contain control characters or lone surrogates");
};

export const object: Check<object> = (value) =>
  isRecord(value) ? value : mustBe("an object", value);

/** Reads Unix time in seconds as ISO 8601 text. The range rejects milliseconds. */
export const unixTime: Check<string> = (value) => {
  if (typeof value !== "number") return mustBe("a number", value);
  return isUnixSeconds(value)
    ? new Date(value * 1000).toISOString()
    : mustBe("in whole Unix seconds, between 2000 and 2200", value);
};

const RFC_3339 =
  /^(?<date>\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(?<fraction>\d{1,6})\d*)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/**
 * Reads a time in RFC 3339, and returns it as ISO 8601 text in UTC. Microseconds, the
 * precision of Postgres, are kept, because they order events.
 */
export const instant: Check<string> = (value) => {
  const text = textOf(value);
  const { date = "", fraction = "" } = RFC_3339.exec(text)?.groups ?? {};
  // `Date` reads 30 February as 2 March.
  const isDay = new Date(date).getUTCDate() === Number(date.slice(-2));
  const time = dateTimeOrNull(Date.parse(text));
  if (!isDay || time === null) {
    return mustBe("a date and time in RFC 3339, between 2000 and 2200", value);
  }
  const [seconds] = time.split(".");
  return `${seconds}.${fraction.padEnd(3, "0")}Z`;
};

/** Makes a check that reads a missing or malformed value as null. */
export function orNull<T>(check: Check<T>) {
  return (value: unknown): T | null => {
    const read = check(value);
    return read instanceof Fault ? null : read;
  };
}

export const identifierOrNull = orNull(identifier);
export const timeOrNull = orNull(unixTime);
export const instantOrNull = orNull(instant);

export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

export function isIdentifier(value: unknown): value is string {
  return identifierOrNull(value) !== null;
}

/** Measures in characters, as Postgres does; each has one or two UTF-16 units. */
function isShort(text: string): boolean {
  return text.length <= MAX_IDENTIFIER_LENGTH ||
    (text.length <= 2 * MAX_IDENTIFIER_LENGTH &&
      [...text].length <= MAX_IDENTIFIER_LENGTH);
}

export function isUnixSeconds(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= YEAR_2000 &&
    Number(value) <= YEAR_2200;
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
    instant: (path: string) => instantOrNull(at(value, path)),
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

export async function sha256Hex(
  bytes: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
