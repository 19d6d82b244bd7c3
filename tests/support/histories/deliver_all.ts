/**
 * A provider: it delivers a history's events to a receiver, and each of them
 * again until the answer is 200.
 *
 * @module
 */
import {
  handleWebhook,
  type Receiver,
} from "../../../supabase/functions/billing-webhook/handle_webhook.ts";
import { providerHeaders } from "../send.ts";
import { eventBody } from "./event_body.ts";
import type { HistoryEvent } from "./history.ts";

/** Counts of deliveries. */
export interface DeliveryFigures {
  readonly deliveries: number;
  /** Answers other than 200, each of which was followed by another delivery. */
  readonly retries: number;
}

/** At once, unless a test says otherwise. */
const CONNECTIONS = 16;
const MAX_ATTEMPTS = 200;
/** Between rounds; a real provider waits far longer. */
const PAUSE_MS = 20;

/**
 * Delivers over several connections at once. What fails goes to the end of the
 * queue, as a provider's retry comes after other events.
 *
 * @param post Makes one delivery and returns its status.
 * @param options.onDelivery Called before each delivery with its number.
 * @throws {Error} If an event is never accepted.
 */
export async function deliverAll<Event extends { readonly id: string }>(
  deliveries: readonly Event[],
  post: (event: Event) => Promise<number>,
  { onDelivery = () => {}, connections = CONNECTIONS }: {
    onDelivery?: (number: number) => void;
    connections?: number;
  } = {},
): Promise<DeliveryFigures> {
  const queue = deliveries.map((event) => ({ event, attempts: 0 }));
  let made = 0;
  let retries = 0;
  await Promise.all(Array.from({ length: connections }, async () => {
    for (let next; (next = queue.shift()) !== undefined;) {
      onDelivery(++made);
      const status = await post(next.event);
      if (status === 200) continue;
      retries++;
      if (++next.attempts === MAX_ATTEMPTS) {
        throw new Error(`${next.event.id} does not get through: ${status}`);
      }
      queue.push(next);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }));
  return { deliveries: made, retries };
}

/** Returns a function that signs an event and delivers it in this process. */
export function postTo(
  receiver: Receiver,
): (event: HistoryEvent) => Promise<number> {
  return async (event) => {
    const request = new Request("http://localhost/billing-webhook", {
      method: "POST",
      ...signed(eventBody(event)),
    });
    const response = await handleWebhook(request, receiver);
    await response.body?.cancel();
    return response.status;
  };
}

/** Returns a function that signs an event and delivers it over HTTP. */
export function postOver(
  url: string,
): (event: HistoryEvent) => Promise<number> {
  return (event) => postSigned(url, eventBody(event));
}

/** Signs and delivers an event over HTTP; returns 0 if there is no answer. */
export async function postSigned(url: string, event: object): Promise<number> {
  try {
    const response = await fetch(url, {
      method: "POST",
      ...signed(event),
    });
    await response.body?.cancel();
    return response.status;
  } catch {
    return 0;
  }
}

function signed(event: object) {
  const body = JSON.stringify(event);
  return { headers: providerHeaders(body, "a"), body };
}
