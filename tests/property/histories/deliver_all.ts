import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { deliver } from "../../support/send.ts";
import { eventBody } from "./event_body.ts";
import type { History } from "./history.ts";

export interface Delivery {
  readonly id: string;
  readonly body: object;
}

/** Between rounds; a real provider waits far longer. */
const PAUSE_MS = 20;

/**
 * Delivers over several connections at once, as a provider does, until each answer is 200.
 * A failed event goes to the end of the queue. Returns how many deliveries that took, and
 * how many were repeated.
 */
export async function deliverAll(
  deliveries: readonly Delivery[],
  { url, connections, onAnswer }: {
    url: string;
    connections: number;
    onAnswer: () => void;
  },
) {
  const queue = [...deliveries];
  let made = 0;
  let acceptedAt = performance.now();
  await Promise.all(Array.from({ length: connections }, async () => {
    for (let next; (next = queue.shift()) !== undefined;) {
      made++;
      const status = await deliver(url, next.body)
        .then((answer) => answer.status, () => 0);
      onAnswer();
      if (status === 200) {
        acceptedAt = performance.now();
        continue;
      }
      if (performance.now() - acceptedAt > HANG_LIMIT_MS) {
        throw new Error(`${next.id} does not get through: ${status}`);
      }
      queue.push(next);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }));
  return { deliveries: made, retries: made - deliveries.length };
}

export function deliveriesOf(histories: readonly History[]): Delivery[] {
  return histories.flatMap(({ deliveries }) =>
    deliveries.map((event) => ({ id: event.id, body: eventBody(event) }))
  );
}
