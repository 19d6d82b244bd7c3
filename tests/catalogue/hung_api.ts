import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { startReceiver } from "../support/receiver.ts";
import type { ServedFunction } from "../support/serve_function.ts";
import { deliver } from "../support/send.ts";
import { startApiProxy } from "../support/api_proxy.ts";

/** A delivery to a receiver whose database does not answer. */
export interface HungDelivery {
  readonly eventId: string;
  readonly status: number;
  readonly retryAfter: string | null;
}

/** Many at once, under way beside other tests: they take some seconds. */
export interface HungDeliveries {
  readonly receiver: ServedFunction;
  readonly answers: Promise<HungDelivery[]>;
}

const DELIVERIES = 400;

/** Sends them to a receiver of their own, behind an API that hangs. */
export async function startHungDeliveries(): Promise<
  HungDeliveries & AsyncDisposable
> {
  const api = await startApiProxy();
  api.fails({
    billing_apply_events: "hangs",
    billing_record_failed_event: "hangs",
  });
  const receiver = await startReceiver({
    env: { SUPABASE_URL: api.url },
  });
  const answers = Promise.all(
    Array.from({ length: DELIVERIES }, () => deliverTo(receiver)),
  );
  // The test that awaits it reports an error.
  answers.catch(() => {});
  return {
    receiver,
    answers,
    [Symbol.asyncDispose]: async () => {
      await receiver[Symbol.asyncDispose]();
      await api[Symbol.asyncDispose]();
    },
  };
}

async function deliverTo(receiver: ServedFunction): Promise<HungDelivery> {
  const event = subscriptionEvent("customer.subscription.created");
  const { status, headers } = await deliver(receiver.url, event);
  const retryAfter = headers.get("retry-after");
  return { eventId: event.id, status, retryAfter };
}
