/**
 * The interface of a provider's API that lists events. Each provider is one file beside
 * this one, and a line in {@linkcode APIS}.
 */
import type { Environment } from "../../_shared/billing/environment.ts";
import type { FormatName } from "../../_shared/billing/events/formats.ts";
import { isLocalStack } from "../../_shared/billing/settings/local_stack.ts";
import {
  PROVIDERS,
  readProviderSettings,
  settingsPrefix,
} from "../../_shared/billing/settings/providers.ts";
import { retryAfterSeconds } from "../channels/post_message.ts";
import { paddleEvents } from "./paddle_events.ts";
import { stripeEvents } from "./stripe_events.ts";

export interface EventApi {
  readonly urls: Readonly<Record<Mode, string>>;
  /** What a key with limited rights begins with; any other is refused. */
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
  /** The oldest first. There may be others than those in the range. */
  events: readonly Json[];
  /** All events of the range before this time have been read. */
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
    readonly pauseSeconds?: number,
  ) {
    super(message);
  }
}

/** A provider with a key; `fault` is why the key must not be used. */
export type KeyedProvider =
  & { readonly provider: string }
  & ({ readonly source: EventSource } | { readonly fault: ApiError });

export type EventSource = EventApi & {
  readonly host: string;
  readonly get: Get;
};

const APIS: Partial<Record<FormatName, EventApi>> = {
  stripe: stripeEvents,
  paddle: paddleEvents,
};

/** A page of a busy account may take long. */
const PAGE_TIME_LIMIT_MS = 10_000;

/** After a 429 that does not say how long. */
const PAUSE_SECONDS = 60;

type Access = Readonly<{ fetch: typeof globalThis.fetch; clock: () => number }>;

/** Returns the providers with a key. It makes no request. */
export function readKeyedProviders(
  env: Environment,
  access: Access,
): KeyedProvider[] {
  return PROVIDERS.flatMap(({ name: provider }): KeyedProvider[] => {
    const key = env[`${settingsPrefix(provider)}API_KEY`]?.trim();
    if (!key) return [];
    try {
      return [{ provider, source: readSource(env, provider, key, access) }];
    } catch (thrown) {
      const fault = thrown instanceof ApiError
        ? thrown
        : new ApiError("api_key_unused", (thrown as Error).message);
      return [{ provider, fault }];
    }
  });
}

/**
 * @throws {ApiError} `api_key_refused` if the key has too many rights or the wrong mode,
 * or would be sent in the clear; `api_key_unused` if the format has no API.
 * @throws {DeliveryError} If another setting of the provider is wrong.
 */
function readSource(
  env: Environment,
  provider: string,
  key: string,
  access: Access,
): EventSource {
  const prefix = settingsPrefix(provider);
  const { format, mode } = readProviderSettings(env, provider);
  const api = APIS[format];
  if (api === undefined) {
    const fault =
      `${prefix}API_KEY has no effect with ${prefix}FORMAT=${format}`;
    throw new ApiError("api_key_unused", fault);
  }

  const { live, test } = api.keys;
  const keyMode = key.startsWith(live) ? "live" : "test";
  const right =
    `${prefix}API_KEY must begin with ${live} or ${test}, and have the right ${api.right} alone`;
  const url = env[`${prefix}API_URL`] || api.urls[keyMode];
  let fault: string | undefined;
  if (!key.startsWith(api.keys[keyMode]) || /\W/.test(key)) {
    fault = right;
  } else if (mode === "any" && keyMode === "test" && !isLocalStack(env)) {
    fault = `${prefix}API_KEY is a test key: set ${prefix}MODE=test`;
  } else if (mode !== "any" && mode !== keyMode) {
    fault = `${prefix}API_KEY is a ${keyMode} key, and ${prefix}MODE=${mode}`;
  } else if (
    !/^(https:|http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/])/.test(url)
  ) {
    fault = `${prefix}API_URL must begin with https://`;
  }
  if (fault !== undefined) throw new ApiError("api_key_refused", fault);

  const get: Get = (path, query) =>
    getPage(`${url}${path}?${query}`, { key, right, ...access });
  return { ...api, host: new URL(url).host, get };
}

async function getPage(
  url: string,
  { key, right, fetch, clock }: Access & { key: string; right: string },
): Promise<Json> {
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(url, {
      headers: { authorization: `Bearer ${key}` },
      redirect: "manual", // A redirect would take the key elsewhere.
      signal: AbortSignal.timeout(PAGE_TIME_LIMIT_MS),
    });
    const text = await response.text();
    body = response.ok ? JSON.parse(text) : undefined;
  } catch {
    // What was thrown may repeat the answer.
    const message = `The API did not answer with JSON within ${
      PAGE_TIME_LIMIT_MS / 1000
    } s`;
    throw new ApiError("api_unavailable", message);
  }

  const { ok, status, headers } = response;
  if (ok) return Object(body);
  const message = `The API answered ${status}`;
  switch (status) {
    case 400:
      throw new ApiError("api_refused", message);
    case 401:
    case 403:
      throw new ApiError("api_key_refused", `${message}: ${right}`);
    case 429: {
      const asked = retryAfterSeconds(headers.get("retry-after"), clock());
      const pause = Math.min(asked ?? PAUSE_SECONDS, 86_400);
      throw new ApiError("api_unavailable", message, pause);
    }
    default:
      throw new ApiError("api_unavailable", message);
  }
}

/**
 * Returns the events of a page, and what the next page comes after; undefined if it is the
 * last.
 *
 * @throws {ApiError} If the page has no list, or the next one would be the same.
 */
export function readPage(
  { data }: Json,
  { id, hasMore, after }: {
    /** The name of an event's ID. */
    id: string;
    hasMore: unknown;
    after: string | null;
  },
): { events: Json[]; next: string | undefined } {
  const isList = Array.isArray(data) &&
    data.every((event) => typeof event?.[id] === "string");
  const last = isList ? data.at(-1)?.[id] : undefined;
  if (!isList || hasMore && (last === undefined || last === after)) {
    const message = "The API's page is not a list of events that goes on";
    throw new ApiError("api_unavailable", message);
  }
  return { events: data, next: hasMore ? last : undefined };
}
