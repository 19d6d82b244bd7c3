import { uniqueId } from "../scripts/events/unique_id.ts";

/** How event IDs are made: as by Stripe, or in no order. */
export type EventIds = "stripe" | "random";

/** Digits of base 62, in byte order. */
export const BASE_62 =
  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Where Stripe's IDs begin to count, in Unix seconds (from published IDs). */
export const FIRST_SECOND = 1_342_389_380;

/** The same in all IDs of one account. */
export const ACCOUNT = "Bx7kQ2mVr4";

/**
 * Returns a new ID of an event.
 *
 * @param seconds Unix time
 */
export function eventId(ids: EventIds, seconds: number): string {
  return ids === "stripe" ? stripeId("evt", seconds) : uniqueId("evt");
}

/**
 * Returns a new ID as Stripe makes them: five characters count seconds, so IDs
 * sort nearly as they were created; ten are the account's, eight are random.
 *
 * @param prefix such as `evt`
 * @param seconds Unix time
 */
export function stripeId(prefix: string, seconds: number): string {
  const random = Array.from(
    { length: 8 },
    () => BASE_62[Math.floor(Math.random() * 62)],
  );
  return `${prefix}_1${base62(seconds - FIRST_SECOND)}${ACCOUNT}${
    random.join("")
  }`;
}

function base62(number: number): string {
  let text = "";
  for (let rest = number; text.length < 5; rest = Math.floor(rest / 62)) {
    text = `${BASE_62[rest % 62]}${text}`;
  }
  return text;
}
