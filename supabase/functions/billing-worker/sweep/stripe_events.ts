/**
 * Stripe lists events by the time of their creation, the newest first, each in the API
 * version in which it was made.
 *
 * @see https://docs.stripe.com/api/events/list
 */
import {
  ApiError,
  type EventApi,
  eventsOf,
  type Get,
  type Json,
  type Range,
} from "./event_api.ts";

const EVENTS_PER_PAGE = "100";

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
      const slice = await readAllTypes({ fromMs, toMs: untilMs, types }, get);
      if (slice !== undefined) {
        const events = slice.events.sort((a, b) => timeOf(a) - timeOf(b));
        const nextLengthMs = 2 * (untilMs - fromMs);
        return { ...slice, events, untilMs, position: null, nextLengthMs };
      }
      const halfSeconds = Math.floor((untilMs - fromMs) / 2000);
      untilMs = fromMs + halfSeconds * 1000;
    }
  },
};

type SliceRange = Pick<Range, "fromMs" | "toMs" | "types">;

/** Returns undefined if the slice has too many events. */
async function readAllTypes({ types, ...times }: SliceRange, get: Get) {
  const events: Json[] = [];
  const refusedTypes: string[] = [];
  const requests: (readonly string[])[] = [];
  for (let i = 0; i < types.length; i += TYPES) {
    requests.push(types.slice(i, i + TYPES));
  }

  for (let some; (some = requests.shift()) !== undefined;) {
    try {
      const read = await readPages({ ...times, types: some }, get);
      if (read === undefined) return undefined;
      events.push(...read);
    } catch (error) {
      const isRefused = error instanceof ApiError &&
        error.code === "api_refused";
      if (!isRefused) throw error;
      // The answer does not reliably say which of the types it is.
      const half = Math.ceil(some.length / 2);
      if (half < some.length) {
        requests.unshift(some.slice(0, half), some.slice(half));
      } else {
        refusedTypes.push(...some);
      }
    }
  }

  // Then it is not because of the types.
  if (refusedTypes.length === types.length) {
    throw new ApiError("api_refused", "The API refuses every type");
  }
  return { events, refusedTypes };
}

/** Returns the events of some types, the oldest first. */
async function readPages(
  { fromMs, toMs, types }: SliceRange,
  get: Get,
): Promise<Json[] | undefined> {
  const query = new URLSearchParams({
    limit: EVENTS_PER_PAGE,
    "created[gte]": `${fromMs / 1000}`,
    "created[lt]": `${toMs / 1000}`,
  });
  for (const type of types) query.append("types[]", type);

  // A second cannot be halved, and is read to its end.
  const isSecond = toMs - fromMs <= 1000;
  const events: Json[] = [];
  for (let pages = 0; pages < PAGES || isSecond; pages++) {
    const page = await get("/v1/events", query);
    const read = eventsOf(page);
    events.push(...read);
    if (page["has_more"] !== true) return events.reverse();

    const last = read.at(-1)?.["id"];
    if (typeof last !== "string" || last === query.get("starting_after")) {
      throw new ApiError("api_unavailable", "The API's pages do not go on");
    }
    query.set("starting_after", last);
  }
  return undefined;
}

function timeOf({ created }: Json): number {
  return Number(created);
}
