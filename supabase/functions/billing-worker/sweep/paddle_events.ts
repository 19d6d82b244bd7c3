/**
 * Paddle lists all events in the order of their IDs, and has no filter by time.
 *
 * @see https://developer.paddle.com/api-reference/events/list-events
 */
import { type EventApi, type Json, PAGES, readPage } from "./event_api.ts";

export const paddleEvents: EventApi = {
  urls: {
    live: "https://api.paddle.com",
    test: "https://sandbox-api.paddle.com",
  },
  keys: { live: "pdl_live_", test: "pdl_sdbx_" },
  right: "notification.read",
  keepsDays: 90,

  async readSlice({ toMs, position }, get) {
    const all: Json[] = [];
    let after = position;
    for (let pages = 0; pages < PAGES; pages++) {
      const query = new URLSearchParams({
        order_by: "id[ASC]",
        per_page: "200",
        ...(after !== null && { after }),
      });
      const page = await get("/events", query);
      const { pagination } = Object(page["meta"]);
      const { events, next } = readPage(page, {
        id: "event_id",
        hasMore: Object(pagination).has_more,
        after,
      });
      all.push(...events);
      if (next === undefined) return { events: all, untilMs: toMs, position };
      after = next;
    }

    const timesMs = all.map((event) =>
      Date.parse(String(event["occurred_at"]))
    );
    const lastMs = Math.max(...timesMs.filter(Number.isFinite));
    return { events: all, untilMs: Math.min(lastMs, toMs), position: after };
  },
};
