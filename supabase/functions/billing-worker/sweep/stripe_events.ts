/**
 * Stripe lists events by the second of their creation, the newest first, each in the API
 * version of its making.
 *
 * @see https://docs.stripe.com/api/events/list
 */
import {
  ApiError,
  type EventApi,
  type Get,
  type Json,
  type Range,
  readPage,
} from "./event_api.ts";

/** The most pages of a slice. */
const PAGES = 5;

/** The most types of a request. */
const TYPES = 20;

export const stripeEvents: EventApi = {
  urls: { live: "https://api.stripe.com", test: "https://api.stripe.com" },
  keys: { live: "rk_live_", test: "rk_test_" },
  right: "Events: Read",
  keepsDays: 30,

  async readSlice({ fromMs, toMs, types }, get) {
    // A slice that is too large is halved.
    for (let untilMs = toMs;;) {
      const range = { fromMs, toMs: untilMs };
      const slice = await readTypes(
        types,
        (some) => readPages(some, range, get),
      );
      if (slice !== undefined) {
        const events = slice.events
          .sort((a, b) => Number(a["created"]) - Number(b["created"]));
        return {
          ...slice,
          events,
          untilMs,
          nextLengthMs: 2 * (untilMs - fromMs),
        };
      }
      untilMs = fromMs + Math.floor((untilMs - fromMs) / 2_000) * 1_000;
    }
  },
};

/** Reads the events of all types; undefined if there are too many. */
async function readTypes(
  types: readonly string[],
  read: (some: readonly string[]) => Promise<Json[] | undefined>,
) {
  const events: Json[] = [];
  const refusedTypes: string[] = [];
  const left = Array.from(
    { length: Math.ceil(types.length / TYPES) },
    (_, i) => types.slice(i * TYPES, (i + 1) * TYPES),
  );

  for (let some; (some = left.shift()) !== undefined;) {
    try {
      const found = await read(some);
      if (found === undefined) return undefined;
      events.push(...found);
    } catch (error) {
      const isRefused = (error as ApiError).code === "api_refused";
      if (!isRefused) throw error;
      // The answer does not say reliably which type it is.
      const half = Math.ceil(some.length / 2);
      if (half === some.length) refusedTypes.push(...some);
      else left.unshift(some.slice(0, half), some.slice(half));
    }
  }

  if (refusedTypes.length === types.length) {
    throw new ApiError("api_refused", "The API refuses every request");
  }
  return { events, refusedTypes };
}

/** Reads the events of some types, the oldest first; undefined if there are too many. */
async function readPages(
  types: readonly string[],
  { fromMs, toMs }: Pick<Range, "fromMs" | "toMs">,
  get: Get,
): Promise<Json[] | undefined> {
  const query = new URLSearchParams({
    limit: "100",
    "created[gte]": `${fromMs / 1000}`,
    "created[lt]": `${toMs / 1000}`,
  });
  for (const type of types) query.append("types[]", type);

  // A second cannot be halved, so it is read to its end.
  const most = toMs - fromMs > 1_000 ? PAGES : Infinity;
  const all: Json[] = [];
  for (let pages = 0; pages < most; pages++) {
    const page = await get("/v1/events", query);
    const { events, next } = readPage(page, {
      id: "id",
      hasMore: page["has_more"],
      after: query.get("starting_after"),
    });
    all.push(...events);
    if (next === undefined) return all.reverse();
    query.set("starting_after", next);
  }
  return undefined;
}
