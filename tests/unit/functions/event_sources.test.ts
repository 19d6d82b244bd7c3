import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Environment } from "../../../scripts/common/environment.ts";
import {
  ApiError,
  type Json,
} from "../../../supabase/functions/billing-worker/sweep/event_api.ts";
import {
  type EventSource,
  readKeyedProviders,
} from "../../../supabase/functions/billing-worker/sweep/event_sources.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/_shared/billing/settings/local_stack.ts";
import {
  createEventApi,
  HOUR,
  LISTING_FORMATS,
  type ListingFormat,
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
  ["rk_live_1", at("http://stand-in.test"), NO_HTTPS],
  ["rk_live_1", at("http://localhost.test/"), NO_HTTPS],
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

async function rejects(source: EventSource, types = ["x"], toMs = 10_000) {
  const range = { fromMs: 0, toMs, types, position: null };
  return await assertRejects(
    () => source.readSlice(range, source.get),
    ApiError,
  );
}

const idOf = ({ id, event_id }: Json) => String(id ?? event_id);

for (const format of ["stripe", "paddle"] as const) {
  Deno.test(`${format}: slices have each event once, also at the same moment over their borders`, async () => {
    const api = createEventApi(format);
    const now = Math.floor(Date.now() / 1000) * 1000;
    const start = now - 10 * HOUR;
    // Five pages have 35 events.
    const times = [...Array(50).keys()].map((i) => start + i * 1000)
      .concat(Array(40).fill(start + HOUR), Array(9).fill(start + 2 * HOUR));
    const events = times.map((at) => api.make("created", { at }));
    const source = sourceOf(
      format,
      (...request) => Promise.resolve(api.answer(new Request(...request))),
    );

    const seen: string[] = [];
    let position: string | null = null;
    for (let fromMs = start; fromMs < now;) {
      const slice = await source.readSlice({
        fromMs,
        toMs: now - HOUR,
        types: [LISTING_FORMATS[format].types.created],
        position,
      }, source.get);
      assert(slice.events.length <= 40);
      seen.push(...slice.events.map(idOf));
      if (slice.untilMs === now - HOUR) break;
      fromMs = slice.untilMs;
      position = slice.position ?? null;
    }
    const isListed = (id: string) => events.some((event) => event.id === id);
    const found = seen.filter(isListed);
    assertEquals(found.toSorted(), events.map(({ id }) => id).sort());
    if (format === "stripe") {
      assertEquals(found.slice(0, 50), events.slice(0, 50).map(({ id }) => id));
    }
    assertEquals(new Set(seen).size, seen.length);
  });

  Deno.test(`${format}: a page that does not go on, and a pause of years, come to an end`, async () => {
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
      new Response("", {
        status: 429,
        headers: { "retry-after": "999999999" },
      }),
      new Response("", { status: 400 }),
    );
    assertEquals((await rejects(source)).pauseSeconds, 86_400);
    assertEquals((await rejects(source)).code, "api_refused");
  });
}
