import Stripe from "stripe";
import type { Target } from "./arguments.ts";
import { callStripe, type StripeAnswer } from "./call_stripe.ts";
import type { Wait } from "./retry.ts";

/** The largest page that Stripe gives. */
export const ITEMS_PER_PAGE = 100;

/** Subscriptions that Stripe does not have, one after the other. */
const MOST_GONE = 100;

/** A page of a busy account takes long. */
const TIMEOUT_MS = 60_000;

/** Subscriptions as Stripe had them at one moment or later. */
export type Page = StripeAnswer<Stripe.Subscription[]>;

/** Reads a Stripe account. */
export type StripeSource = ReturnType<typeof openStripeSource>;

/**
 * Returns a reader of the account that an API key belongs to. It uses Stripe's
 * own package.
 *
 * @throws {Error} While reading, if an object is of the other mode.
 */
export function openStripeSource(
  { apiKey, mode, stripeUrl }: Pick<Target, "apiKey" | "mode" | "stripeUrl">,
  wait: Wait,
) {
  const stripe = new Stripe(apiKey, {
    maxNetworkRetries: 0,
    timeout: TIMEOUT_MS,
    telemetry: false,
    ...(stripeUrl === undefined ? {} : addressOf(stripeUrl)),
  });

  async function* pages<T extends { id: string; livemode: boolean }>(
    list: (
      position: { limit: number; starting_after?: string },
    ) => Promise<Stripe.Response<Stripe.ApiList<T>>>,
    after?: string,
  ): AsyncGenerator<StripeAnswer<T[]>> {
    let last = after;
    let hasMore = true;
    while (hasMore) {
      const position = last === undefined ? {} : { starting_after: last };
      const { data: page, askedAtSeconds } = await callStripe(
        () => list({ limit: ITEMS_PER_PAGE, ...position }),
        wait,
      );
      page.data.forEach(checkMode);
      last = page.data.at(-1)?.id;
      hasMore = page.has_more && last !== undefined;
      yield { data: page.data, askedAtSeconds };
    }
  }

  function checkMode({ id, livemode }: { id: string; livemode: boolean }) {
    if (livemode === (mode === "live")) return;
    throw new Error(
      `${id} is not in ${mode} mode. Check that STRIPE_API_KEY is the right key.`,
    );
  }

  return {
    /**
     * Reads all subscriptions, canceled ones included, the newest first.
     *
     * @param after A subscription's ID: reads only the older ones.
     */
    subscriptions(after?: string): AsyncGenerator<Page> {
      return pages(
        (position) => stripe.subscriptions.list({ status: "all", ...position }),
        after,
      );
    },

    /**
     * Reads some subscriptions, one per page. Those that are gone are left out;
     * if many in a row are, the key is of another account, and it ends.
     */
    async *someSubscriptions(ids: readonly string[]): AsyncGenerator<Page> {
      let goneInARow = 0;
      for (const id of ids) {
        try {
          const { data, askedAtSeconds } = await callStripe(
            () => stripe.subscriptions.retrieve(id),
            wait,
          );
          checkMode(data);
          goneInARow = 0;
          yield { data: [data], askedAtSeconds };
        } catch (error) {
          if (!isGone(error)) throw error;
          if (++goneInARow === MOST_GONE) return;
        }
      }
    },

    /** Reads the events of the last 30 days that an endpoint has not acknowledged. */
    async *undeliveredEvents(
      types: readonly string[],
    ): AsyncGenerator<Stripe.Event> {
      const undelivered = { delivery_success: false, types: [...types] };
      const found = pages((position) =>
        stripe.events.list({ ...undelivered, ...position })
      );
      for await (const { data } of found) yield* data;
    },
  };
}

function addressOf(url: string) {
  const { protocol, hostname, port } = new URL(url);
  return {
    protocol: protocol === "http:" ? "http" as const : "https" as const,
    host: hostname,
    port: Number(port),
  };
}

function isGone(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeError &&
    error.code === "resource_missing";
}
