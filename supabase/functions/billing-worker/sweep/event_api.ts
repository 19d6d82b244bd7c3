/**
 * The interface of a provider's API as far as it lists events. Each provider is one file
 * beside this one, and a line in {@linkcode APIS}.
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
  /** The API's URL by the mode of a key. */
  readonly urls: Readonly<Record<Mode, string>>;
  /** What a key with limited rights begins with; any other key is refused. */
  readonly keys: Readonly<Record<Mode, string>>;
  /** The right that the key needs, and nothing else. */
  readonly right: string;
  /** For how many days the provider keeps events. */
  readonly keepsDays: number;
  /**
   * Reads the first part of a range, small enough to be read whole.
   *
   * @throws {ApiError}
   */
  readSlice(range: Range, get: Get): Promise<Slice>;
}

type Mode = "live" | "test";

/** From `fromMs` on, or after `position` if the provider has cursors; before `toMs`. */
export type Range = Readonly<{
  fromMs: number;
  toMs: number;
  position: string | null;
  types: readonly string[];
}>;

export type Slice = Readonly<{
  /** The oldest first. It may have others than those that were asked for. */
  events: readonly Json[];
  /** Every event of the range before this time has been read. */
  untilMs: number;
  /** Where the next slice begins, if the provider has cursors. */
  position: string | null;
  /** How long the next slice may be, if not as long as the range. */
  nextLengthMs?: number;
  /** The types that the API does not know. */
  refusedTypes?: readonly string[];
}>;

export type Json = Readonly<Record<string, unknown>>;

/** Gets a page of the API. */
export type Get = (path: string, query: URLSearchParams) => Promise<Json>;

/** Why the API has not answered; `message` is for operators. */
export class ApiError extends Error {
  override name = "ApiError";

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

/** The API of one provider, with a key that may read its events. */
export type EventSource = EventApi & {
  /** Names the API's host, for its pauses. */
  readonly destination: string;
  readonly get: Get;
};

/** A provider with a key; `fault` is why that key must not be used. */
export type KeyedProvider =
  & { readonly provider: string }
  & ({ readonly source: EventSource } | { readonly fault: ApiError });

const APIS: Partial<Record<FormatName, EventApi>> = {
  stripe: stripeEvents,
  paddle: paddleEvents,
};

/** A page of a busy account may take long. */
const PAGE_TIME_LIMIT_MS = 10_000;

/** After a 429 that does not say how long to wait. */
const DEFAULT_PAUSE_SECONDS = 60;

/** Returns the providers with a key. */
export function readKeyedProviders(
  env: Environment,
  options: { fetch: typeof globalThis.fetch; clock: () => number },
): KeyedProvider[] {
  return PROVIDERS.flatMap(({ name: provider }): KeyedProvider[] => {
    try {
      const source = readEventSource(env, provider, options);
      return source === undefined ? [] : [{ provider, source }];
    } catch (thrown) {
      const fault = thrown instanceof ApiError
        ? thrown
        : new ApiError("api_key_unused", (thrown as Error).message);
      return [{ provider, fault }];
    }
  });
}

/**
 * Returns where a provider's events can be listed; undefined if no key is set. It makes
 * no request.
 *
 * @throws {ApiError} `api_key_refused` if the key has too many rights or the wrong mode;
 * `api_key_unused` if the provider's API is unknown.
 * @throws {DeliveryError} If another setting of the provider is wrong.
 */
function readEventSource(
  env: Environment,
  provider: string,
  { fetch, clock }: { fetch: typeof globalThis.fetch; clock: () => number },
): EventSource | undefined {
  const prefix = settingsPrefix(provider);
  const key = env[`${prefix}API_KEY`]?.trim();
  if (!key) return undefined;

  const { format, mode } = readProviderSettings(env, provider);
  const api = APIS[format];
  if (api === undefined) {
    const fault =
      `${prefix}API_KEY has no effect with ${prefix}FORMAT=${format}.`;
    throw new ApiError("api_key_unused", fault);
  }
  const refuse = (fault: string): never => {
    throw new ApiError("api_key_refused", fault);
  };

  const { live, test } = api.keys;
  const keyMode = key.startsWith(live) ? "live" : "test";
  if (!key.startsWith(api.keys[keyMode]) || !/^\w+$/.test(key)) {
    refuse(
      `${prefix}API_KEY must be a key that begins with ${live} or ${test}, with the right ${api.right} alone.`,
    );
  }
  if (mode !== "any" && mode !== keyMode) {
    refuse(`${prefix}API_KEY is a ${keyMode} key, but ${prefix}MODE=${mode}.`);
  }
  if (mode === "any" && keyMode === "test" && !isLocalStack(env)) {
    refuse(`${prefix}API_KEY is a test key: set ${prefix}MODE=test.`);
  }

  const url = env[`${prefix}API_URL`] || api.urls[keyMode];
  if (!isSafe(url)) {
    refuse(`${prefix}API_URL must begin with https://.`);
  }
  return {
    ...api,
    destination: `API of ${new URL(url).host}`,
    get: (path, query) => {
      return getPage(`${url.replace(/\/$/, "")}${path}?${query}`, {
        key,
        fetch,
        nowMs: clock(),
        right: `${prefix}API_KEY needs the right ${api.right}`,
      });
    },
  };
}

/** Whether the key can be sent there: over https, or on this machine. */
function isSafe(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || protocol === "http:" &&
      /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

async function getPage(
  url: string,
  { key, fetch, nowMs, right }: {
    key: string;
    fetch: typeof globalThis.fetch;
    nowMs: number;
    right: string;
  },
): Promise<Json> {
  let status: number;
  let headers: Headers;
  let body: unknown;
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${key}` },
      redirect: "manual", // A redirect would take the key elsewhere.
      signal: AbortSignal.timeout(PAGE_TIME_LIMIT_MS),
    });
    ({ status, headers } = response);
    const text = await response.text();
    body = status === 200 ? JSON.parse(text) : undefined;
  } catch (error) {
    // What fetch and JSON.parse say may repeat the URL or the answer.
    const isTimeout = (error as Error).name === "TimeoutError";
    throw new ApiError(
      "api_unavailable",
      isTimeout
        ? `The API did not answer within ${PAGE_TIME_LIMIT_MS / 1000} s`
        : "The API's answer broke off, or is not JSON",
    );
  }

  if (status === 401 || status === 403) {
    throw new ApiError(
      "api_key_refused",
      `The API answered ${status}: ${right}`,
    );
  }
  if (status === 429) {
    const pause = retryAfterSeconds(headers.get("retry-after"), nowMs);
    throw new ApiError(
      "api_unavailable",
      "The API answered 429: too many requests",
      Math.min(pause ?? DEFAULT_PAUSE_SECONDS, 86_400),
    );
  }
  if (status === 400) {
    throw new ApiError("api_refused", "The API answered 400");
  }
  if (typeof body !== "object" || body === null) {
    throw new ApiError("api_unavailable", `The API answered ${status}`);
  }
  return body as Json;
}

/** Returns the list of events of a page. @throws {ApiError} If it has none. */
export function eventsOf({ data }: Json): Json[] {
  if (!Array.isArray(data) || !data.every((event) => Object(event) === event)) {
    throw new ApiError("api_unavailable", "The API's page has no list");
  }
  return data;
}
