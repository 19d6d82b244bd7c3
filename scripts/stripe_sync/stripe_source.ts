import Stripe from "stripe";
import { callStripe, type StripeAnswer } from "./call_stripe.ts";
import type { Mode } from "./read_mode.ts";
import type { RetryTools } from "./retry.ts";

/** The largest page that Stripe gives. */
const ITEMS_PER_PAGE = 100;

/** A page of a busy account takes long. */
const TIMEOUT_MS = 60_000;

/** Subscriptions as Stripe had them at one moment or later. */
export interface Page {
  readonly subscriptions: readonly Stripe.Subscription[];
  /** See {@linkcode StripeAnswer}. */
  readonly askedAtSeconds: number;
}

/** Reads a Stripe account. */
export interface StripeSource {
  /**
   * Reads all subscriptions, canceled ones included, the newest first.
   *
   * @param after A subscription's ID: reads only the older ones.
   */
  subscriptions(after?: string): AsyncGenerator<Page>;
  /** Reads some subscriptions, one per page; those that are gone are left out. */
  someSubscriptions(ids: readonly string[]): AsyncGenerator<Page>;
  /** Reads the events of the last 30 days that an endpoint has not acknowledged. */
  undeliveredEvents(types: readonly string[]): AsyncGenerator<Stripe.Event>;
}

/**
 * Returns a reader of the account that an API key belongs to. It uses Stripe's
 * own package.
 *
 * @param options.stripeUrl A stand-in for Stripe's API, for tests.
 * @throws {Error} While reading, if an object is of the other mode.
 */
export function openStripeSource(
  { apiKey, mode, stripeUrl }: {
    apiKey: string;
    mode: Mode;
    stripeUrl?: string | undefined;
  },
  tools: RetryTools,
): StripeSource {
  const stripe = new Stripe(apiKey, {
    maxNetworkRetries: 0,
    timeout: TIMEOUT_MS,
    telemetry: false,
    ...(stripeUrl === undefined ? {} : addressOf(stripeUrl)),
  });

  /** Reads a list page by page. */
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
        tools,
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
    async *subscriptions(after) {
      for await (
        const { data, askedAtSeconds } of pages(
          (position) =>
            stripe.subscriptions.list({ status: "all", ...position }),
          after,
        )
      ) yield { subscriptions: data, askedAtSeconds };
    },

    async *someSubscriptions(ids) {
      for (const id of ids) {
        try {
          const { data, askedAtSeconds } = await callStripe(
            () => stripe.subscriptions.retrieve(id),
            tools,
          );
          checkMode(data);
          yield { subscriptions: [data], askedAtSeconds };
        } catch (error) {
          if (!isGone(error)) throw error;
        }
      }
    },

    async *undeliveredEvents(types) {
      for await (
        const { data } of pages((position) =>
          stripe.events.list({
            delivery_success: false,
            types: [...types],
            ...position,
          })
        )
      ) yield* data;
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
