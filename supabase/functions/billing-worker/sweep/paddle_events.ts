/**
 * Paddle lists all events in the order of their IDs, and has no filter by time.
 *
 * @see https://developer.paddle.com/api-reference/events/list-events
 */
import { ApiError, type EventApi, eventsOf, type Json } from "./event_api.ts";

const EVENTS_PER_PAGE = "200";

/** The most pages of a slice. */
const PAGES = 5;

export const paddleEvents: EventApi = {
  urls: {
    live: "https://api.paddle.com",
    test: "https://sandbox-api.paddle.com",
  },
  keys: { live: "pdl_live_", test: "pdl_sdbx_" },
  right: "notification.read",
  keepsDays: 90,

  async readSlice({ toMs, position }, get) {
    const events: Json[] = [];
    let after = position;
    for (let pages = 0; pages < PAGES; pages++) {
      const query = new URLSearchParams({
        order_by: "id[ASC]",
        per_page: EVENTS_PER_PAGE,
      });
      if (after !== null) query.set("after", after);

      const page = await get("/events", query);
      const read = eventsOf(page);
      events.push(...read);
      const last = read.at(-1);
      if (last === undefined || !hasMore(page) || timeOf(last) >= toMs) {
        return { events, untilMs: toMs, position: after };
      }

      const { event_id } = last;
      if (typeof event_id !== "string" || event_id === after) {
        throw new ApiError("api_unavailable", "The API's pages do not go on");
      }
      after = event_id;
    }
    return { events, untilMs: timeOf(events.at(-1)!), position: after };
  },
};

function hasMore({ meta }: Json): boolean {
  const { pagination } = Object(meta);
  return Object(pagination).has_more === true;
}

function timeOf({ occurred_at }: Json): number {
  return Date.parse(String(occurred_at));
}
