import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Environment } from "../../../scripts/common/environment.ts";
import { ApiError } from "../../../supabase/functions/billing-worker/sweep/event_api.ts";
import {
  type EventSource,
  readKeyedProviders,
} from "../../../supabase/functions/billing-worker/sweep/event_sources.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/_shared/billing/settings/local_stack.ts";
import {
  clock,
  createEventApi,
  fetchFrom,
  HOUR,
  LISTING_FORMATS,
  type ListingFormat,
  refusal,
} from "../../support/event_apis.ts";

const LOCAL = {
  SUPABASE_SECRET_KEYS: JSON.stringify({ default: LOCAL_SECRET_KEY }),
};
const PADDLE = { PROVIDER_A_FORMAT: "paddle" };
const LIVE = { PROVIDER_A_MODE: "live" };
const TEST = { PROVIDER_A_MODE: "test" };
const at = (url: string) => ({ PROVIDER_A_API_URL: url });

const RIGHT = "api_key_refused: PROVIDER_A_API_KEY must begin with ";
const UNUSED = "api_key_unused: PROVIDER_A_";
const NO_HTTPS = "api_key_refused: PROVIDER_A_API_URL must begin with https://";
const OF_TEST = "api_key_refused: PROVIDER_A_API_KEY is a test key";

/** The host, or why the key is not used. */
const KEYS: [key: string, env: Environment, expected?: string][] = [
  ["", {}],
  [" ", {}],
  ["rk_live_1", {}, "api.stripe.com"],
  ["rk_live_1", LIVE, "api.stripe.com"],
  ["rk_test_1\n", LOCAL, "api.stripe.com"],
  ["rk_test_1", TEST, "api.stripe.com"],
  ["pdl_live_1", PADDLE, "api.paddle.com"],
  ["pdl_sdbx_1", { ...PADDLE, ...TEST }, "sandbox-api.paddle.com"],

  ["sk_live_1", {}, `${RIGHT}rk_live_ or rk_test_, and have the right Events`],
  ["sk_test_1", LOCAL, RIGHT],
  ["rk_live_1 2", {}, RIGHT],
  ["rk_live_1", PADDLE, `${RIGHT}pdl_live_ or pdl_sdbx_`],
  ["0123456789abcdef", PADDLE, RIGHT],
  ["rk_test_1", {}, `${OF_TEST}: set PROVIDER_A_MODE=test`],
  ["pdl_sdbx_1", PADDLE, `${OF_TEST}: set PROVIDER_A_MODE=test`],
  ["rk_test_1", { ...LOCAL, ...LIVE }, `${OF_TEST}, and PROVIDER_A_MODE=live`],
  ["rk_live_1", TEST, "api_key_refused: PROVIDER_A_API_KEY is a live key, and"],

  ["rk_live_1", at("https://stand-in.test"), "stand-in.test"],
  ["rk_live_1", at("http://127.0.0.1:1/"), "127.0.0.1:1"],
  ["rk_live_1", at("http://localhost:1@stand-in.test"), NO_HTTPS],
  ["rk_live_1", { PROVIDER_A_FORMAT: "polar" }, `${UNUSED}API_KEY has no effe`],
  ["rk_live_1", { PROVIDER_A_MODE: "life" }, `${UNUSED}MODE must be`],
];

Deno.test("readKeyedProviders() refuses keys that can do more, or have the wrong mode", () => {
  for (const [key, more, expected] of KEYS) {
    const env = { PROVIDER_A_API_KEY: key, ...more };
    const [keyed, ...others] = readKeyedProviders(env, {
      fetch: () => Promise.reject("no request is made"),
      clock: Date.now,
    });
    let found: string | undefined;
    if (keyed && "fault" in keyed) {
      const { code, message } = keyed.fault;
      found = `${code}: ${message}`.slice(0, expected?.length);
      assert(!message.includes(key), message);
    } else {
      found = keyed?.source.host;
    }
    assertEquals([found, others], [expected, []], JSON.stringify(env));
  }
});

function sourceOf(format: ListingFormat, fetch: typeof globalThis.fetch) {
  const [keyed] = readKeyedProviders({
    ...LOCAL,
    PROVIDER_A_FORMAT: format,
    PROVIDER_A_API_KEY: LISTING_FORMATS[format].key,
  }, { fetch, clock: Date.now });
  assert(keyed && "source" in keyed);
  return keyed.source;
}

async function rejects(source: EventSource) {
  const range = { fromMs: 0, toMs: 10_000, types: ["x"], position: null };
  return await assertRejects(
    () => source.readSlice(range, source.get),
    ApiError,
  );
}

for (const format of ["stripe", "paddle"] as const) {
  Deno.test(`${format}: slices have each event once, also of the moment at their border`, async () => {
    const api = createEventApi(format);
    // Five pages have 35 events.
    const events = [...Array(50).keys()].map((i) => 10 * HOUR - i * 1000)
      .concat(Array(40).fill(9 * HOUR), Array(9).fill(8 * HOUR))
      .map((agoMs) => api.make("created", agoMs));
    const source = sourceOf(format, fetchFrom(api));

    const toMs = clock.now - HOUR;
    const types = [api.types.created];
    const seen: string[] = [];
    let position: string | null = null;
    for (let fromMs = toMs - 10 * HOUR; fromMs < toMs;) {
      const range = { fromMs, toMs, types, position };
      const slice = await source.readSlice(range, source.get);
      assert(slice.events.length <= 40);
      seen.push(...slice.events.map(({ id, event_id }) => `${id ?? event_id}`));
      fromMs = slice.untilMs;
      position = slice.position ?? null;
    }
    const ids = events.map(({ id }) => id);
    const found = seen.filter((id) => ids.includes(id));
    assertEquals(found.toSorted(), ids.toSorted());
    if (format === "stripe") assertEquals(found.slice(0, 50), ids.slice(0, 50));
    assertEquals(new Set(seen).size, seen.length);
  });

  Deno.test(`${format}: endless lists and pauses come to an end`, async () => {
    const pages: Response[] = [];
    const source = sourceOf(format, () => Promise.resolve(pages.shift()!));
    const page = (...data: unknown[]) =>
      Response.json({
        data,
        has_more: true,
        meta: { pagination: { has_more: true } },
      });
    const event = { id: "evt_1", event_id: "evt_1" };
    for (const list of [[page()], [page(null)], [page(event), page(event)]]) {
      pages.push(...list);
      assertEquals((await rejects(source)).code, "api_unavailable");
      assertEquals(pages, []);
    }
    pages.push(
      refusal(429, { "retry-after": "999999999" }),
      refusal(400),
    );
    assertEquals((await rejects(source)).pauseSeconds, 86_400);
    assertEquals((await rejects(source)).code, "api_refused");
  });
}
