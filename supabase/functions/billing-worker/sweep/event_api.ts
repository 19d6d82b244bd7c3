/** The interface of the API that lists a provider's events. Each is a file beside this one. */
import { retryAfterSeconds } from "../channels/post_message.ts";

export interface EventApi {
  readonly urls: Readonly<Record<Mode, string>>;
  /** What a key with limited rights begins with. */
  readonly keys: Readonly<Record<Mode, string>>;
  /** The only right that the key needs. */
  readonly right: string;
  /** For how many days the provider keeps events. */
  readonly keepsDays: number;
  /**
   * Reads a range, or its first part if that is too large to be read whole.
   *
   * @throws {ApiError}
   */
  readSlice(range: Range, get: Get): Promise<Slice>;
}

type Mode = "live" | "test";

/** In whole seconds. A provider with cursors reads what comes after `position`. */
export type Range = Readonly<{
  fromMs: number;
  toMs: number;
  position: string | null;
  types: readonly string[];
}>;

export type Slice = Readonly<{
  /** The oldest first; maybe more than the range has. */
  events: readonly Json[];
  /** The events of the range before this time have been read. */
  untilMs: number;
  /** Where the next slice begins, if the provider has cursors. */
  position?: string | null;
  /** How long the next slice should be, if that is known. */
  nextLengthMs?: number;
  /** Types that the API does not know. */
  refusedTypes?: readonly string[];
}>;

export type Json = Readonly<Record<string, unknown>>;

/** Gets a page of the API. */
export type Get = (path: string, query: URLSearchParams) => Promise<Json>;

/** Why nothing can be listed; `message` is for operators. */
export class ApiError extends Error {
  constructor(
    readonly code:
      | "api_key_refused"
      | "api_key_unused"
      | "api_refused"
      | "api_unavailable",
    message: string,
    readonly pauseSeconds?: number | undefined,
  ) {
    super(message);
  }
}

/** A busy account's page may take long. */
const TIME_LIMIT_MS = 10_000;

/** After a 429 that does not say how long. */
const PAUSE_SECONDS = 60;

/** @param options.advice What to do if the key is refused. */
export async function getPage(
  url: string,
  { key, advice, fetch, clock }: {
    key: string;
    advice: string;
    fetch: typeof globalThis.fetch;
    clock: () => number;
  },
): Promise<Json> {
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(url, {
      headers: { authorization: `Bearer ${key}` },
      redirect: "manual", // A redirect would take the key elsewhere.
      signal: AbortSignal.timeout(TIME_LIMIT_MS),
    });
    const text = await response.text();
    body = response.ok ? JSON.parse(text) : undefined;
  } catch {
    // What was thrown may repeat the answer.
    const message = `no JSON from the API within ${TIME_LIMIT_MS / 1000} s`;
    throw new ApiError("api_unavailable", message);
  }

  const { ok, status, headers } = response;
  if (ok) return Object(body);
  const message = `the API answered ${status}`;
  switch (status) {
    case 400:
      throw new ApiError("api_refused", message);
    case 401:
    case 403:
      throw new ApiError("api_key_refused", `${message}: ${advice}`);
    default: {
      const asked = retryAfterSeconds(headers.get("retry-after"), clock());
      const pause = Math.min(asked ?? PAUSE_SECONDS, 86_400);
      const pauseSeconds = status === 429 ? pause : undefined;
      throw new ApiError("api_unavailable", message, pauseSeconds);
    }
  }
}

/**
 * Returns the events of a page, and what the next page comes after, if there is one.
 *
 * @param options.id The name of an event's ID.
 * @throws {ApiError} If the page has no list, or the next one would be the same.
 */
export function readPage(
  { data }: Json,
  { id, hasMore, after }: {
    id: string;
    hasMore: unknown;
    after: string | null;
  },
): { events: Json[]; next: string | undefined } {
  const isList = Array.isArray(data) &&
    data.every((event) => typeof event?.[id] === "string");
  const last = isList ? data.at(-1)?.[id] : undefined;
  if (!isList || hasMore && (last === undefined || last === after)) {
    const message = "the API's page is not a list of events that goes on";
    throw new ApiError("api_unavailable", message);
  }
  return { events: data, next: hasMore ? last : undefined };
}
