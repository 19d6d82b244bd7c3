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
  PAGES,
  type Range,
  readPage,
} from "./event_api.ts";

/** The most types of a request. */
const TYPES = 20;

export const stripeEvents: EventApi = {
  urls: { live: "https://api.stripe.com", test: "https://api.stripe.com" },
  keys: { live: "rk_live_", test: "rk_test_" },
  right: "Events: Read",
  keepsDays: 30,

  async readSlice({ fromMs, toMs, types }, get) {
    for (let untilMs = toMs;;) {
      const lengthMs = untilMs - fromMs;
      const slice = await readTypes(types, { fromMs, toMs: untilMs }, get);
      const { events, refusedTypes, isWhole } = slice;
      if (isWhole) {
        // Of the same second, the one that was listed last came first.
        events.reverse().sort((a, b) => timeOf(a) - timeOf(b));
        const nextLengthMs = lengthMs * (events.length < 200 ? 2 : 1);
        return { events, refusedTypes, untilMs, nextLengthMs };
      }
      // Halved, or as long as what these pages have of it.
      const readMs = untilMs - Math.min(...events.map(timeOf)) * 1_000;
      const seconds = Math.floor(Math.min(lengthMs / 2, readMs) / 1_000);
      untilMs = fromMs + Math.max(seconds, 1) * 1_000;
    }
  },
};

type Times = Pick<Range, "fromMs" | "toMs">;

/** Reads the events of all types, the newest first; not all if there are too many. */
async function readTypes(types: readonly string[], times: Times, get: Get) {
  const events: Json[] = [];
  const refusedTypes: string[] = [];
  const left = Array.from(
    { length: Math.ceil(types.length / TYPES) },
    (_, i) => types.slice(i * TYPES, (i + 1) * TYPES),
  );

  for (let some; (some = left.shift()) !== undefined;) {
    try {
      const isWhole = await readPages(events, { types: some, ...times }, get);
      if (!isWhole) return { events, refusedTypes, isWhole };
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
    throw new ApiError("api_refused", "the API refuses every request");
  }
  return { events, refusedTypes, isWhole: true };
}

/** Adds the events of some types; returns whether these are all. */
async function readPages(
  events: Json[],
  { types, fromMs, toMs }: Times & Pick<Range, "types">,
  get: Get,
): Promise<boolean> {
  const query = new URLSearchParams({
    limit: "100",
    "created[gte]": `${fromMs / 1_000}`,
    "created[lt]": `${toMs / 1_000}`,
  });
  for (const type of types) query.append("types[]", type);

  // A second cannot be halved, so it is read to its end.
  const most = toMs - fromMs > 1_000 ? PAGES : Infinity;
  for (let pages = 0; pages < most; pages++) {
    const page = await get("/v1/events", query);
    const { events: read, next } = readPage(page, {
      id: "id",
      hasMore: page["has_more"],
      after: query.get("starting_after"),
    });
    events.push(...read);
    if (next === undefined) return true;
    query.set("starting_after", next);
  }
  return false;
}

function timeOf({ created }: Json): number {
  return Number(created);
}
