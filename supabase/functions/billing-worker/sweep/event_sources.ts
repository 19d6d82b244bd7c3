/** The settings of sweeps: a key for a provider's API. */
import type { Environment } from "../../_shared/billing/environment.ts";
import type { FormatName } from "../../_shared/billing/events/formats.ts";
import { isSafeUrl } from "../../_shared/billing/settings/deployment.ts";
import { isLocalStack } from "../../_shared/billing/settings/local_stack.ts";
import {
  PROVIDERS,
  readProviderSettings,
  settingsPrefix,
} from "../../_shared/billing/settings/providers.ts";
import { ApiError, type EventApi, type Get, getPage } from "./event_api.ts";
import { paddleEvents } from "./paddle_events.ts";
import { stripeEvents } from "./stripe_events.ts";

const APIS: Partial<Record<FormatName, EventApi>> = {
  stripe: stripeEvents,
  paddle: paddleEvents,
};

export type EventSource = EventApi & {
  readonly host: string;
  readonly get: Get;
};

/** A provider with a key; `fault` is why the key must not be used. */
export type KeyedProvider =
  & { readonly provider: string }
  & ({ readonly source: EventSource } | { readonly fault: ApiError });

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
      return [{ provider, source: readSource(env, { provider, key, access }) }];
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
 * @throws {DeliveryError} If another setting is wrong.
 */
function readSource(
  env: Environment,
  { provider, key, access }: { provider: string; key: string; access: Access },
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
  const advice =
    `${prefix}API_KEY must begin with ${live} or ${test}, and have the right ${api.right} alone`;
  const url = env[`${prefix}API_URL`]?.replace(/\/$/, "") || api.urls[keyMode];
  let fault: string | undefined;
  if (!key.startsWith(api.keys[keyMode]) || /\W/.test(key)) {
    fault = advice;
  } else if (mode === "any" && keyMode === "test" && !isLocalStack(env)) {
    fault = `${prefix}API_KEY is a test key: set ${prefix}MODE=test`;
  } else if (mode !== "any" && mode !== keyMode) {
    fault = `${prefix}API_KEY is a ${keyMode} key, and ${prefix}MODE=${mode}`;
  } else if (!isSafeUrl(url)) {
    fault = `${prefix}API_URL must begin with https://`;
  }
  if (fault !== undefined) throw new ApiError("api_key_refused", fault);

  const get: Get = (path, query) =>
    getPage(`${url}${path}?${query}`, { key, advice, ...access });
  return { ...api, host: new URL(url).host, get };
}
