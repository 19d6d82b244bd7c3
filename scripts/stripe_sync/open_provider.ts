import Stripe from "stripe";
import { type Answer, ask, type AskTools } from "./ask.ts";
import type { Mode } from "./read_mode.ts";

/** The largest page that Stripe gives. */
const PAGE = 100;

/** As long as the package waits for a page of a busy account. */
const TIMEOUT_MS = 60_000;

/** Subscriptions as the provider had them at one moment or later. */
export interface Page {
  readonly subscriptions: readonly Stripe.Subscription[];
  /** See {@linkcode Answer}. */
  readonly askedAt: number;
}

/** What is asked of the provider. */
export interface Provider {
  /**
   * All subscriptions there are and were, the newest first.
   *
   * @param after The id of one: only those that are older.
   */
  subscriptions(after?: string): AsyncGenerator<Page>;
  /** Some subscriptions, one a page; what is gone is left out. */
  someSubscriptions(ids: readonly string[]): AsyncGenerator<Page>;
  /** Events that an endpoint has not acknowledged, of the last 30 days. */
  undeliveredEvents(types: readonly string[]): AsyncGenerator<Stripe.Event>;
}

/**
 * Opens the provider's API, through its own package.
 *
 * @param options.url Another address than Stripe's, for tests.
 * @throws {Error} While reading, for objects of the other mode.
 */
export function openProvider(
  { apiKey, mode, stripeUrl }: {
    apiKey: string;
    mode: Mode;
    stripeUrl?: string | undefined;
  },
  tools: AskTools,
): Provider {
  const stripe = new Stripe(apiKey, {
    maxNetworkRetries: 0,
    timeout: TIMEOUT_MS,
    telemetry: false,
    ...(stripeUrl === undefined ? {} : addressOf(stripeUrl)),
  });

  /** Follows the pages of a list, each asked for with patience. */
  async function* pages<T extends { id: string; livemode: boolean }>(
    list: (
      position: { limit: number; starting_after?: string },
    ) => Promise<Stripe.Response<Stripe.ApiList<T>>>,
    after?: string,
  ): AsyncGenerator<Answer<T[]>> {
    let last = after;
    let hasMore = true;
    while (hasMore) {
      const position = last === undefined ? {} : { starting_after: last };
      const { data: page, askedAt } = await ask(
        () => list({ limit: PAGE, ...position }),
        tools,
      );
      page.data.forEach(checkMode);
      last = page.data.at(-1)?.id;
      hasMore = page.has_more && last !== undefined;
      yield { data: page.data, askedAt };
    }
  }

  function checkMode({ id, livemode }: { id: string; livemode: boolean }) {
    if (livemode === (mode === "live")) return;
    throw new Error(
      `Cannot go on: ${id} is not of ${mode} mode. Is STRIPE_API_KEY the right one?`,
    );
  }

  return {
    async *subscriptions(after) {
      for await (
        const { data, askedAt } of pages(
          (position) =>
            stripe.subscriptions.list({ status: "all", ...position }),
          after,
        )
      ) yield { subscriptions: data, askedAt };
    },

    async *someSubscriptions(ids) {
      for (const id of ids) {
        try {
          const { data, askedAt } = await ask(
            () => stripe.subscriptions.retrieve(id),
            tools,
          );
          checkMode(data);
          yield { subscriptions: [data], askedAt };
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
