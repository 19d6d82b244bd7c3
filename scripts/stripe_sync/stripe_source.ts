import Stripe from "stripe";
import { printError } from "../common/cli.ts";
import { retry, type Wait } from "./retry.ts";

/** The largest page that Stripe gives. */
const ITEMS_PER_PAGE = 100;

/** A page of a busy account may take long. */
const TIMEOUT_MS = 60_000;

interface StripeAnswer<T> {
  readonly data: T;
  /** By Stripe's clock, no later than when it read its data. */
  readonly askedAtSeconds: number;
}

export type Page = StripeAnswer<Stripe.Subscription[]>;

export type StripeSource = ReturnType<typeof openStripeSource>;

/**
 * Reads the account of an API key, without the retries and the paging of Stripe's
 * package, which ignore 429, `Retry-After` and answers that break off, and do not give
 * the time of each page.
 */
export function openStripeSource(
  { apiKey, mode, stripeUrl }: {
    apiKey: string;
    mode: string;
    stripeUrl: string | undefined;
  },
  wait: Wait,
) {
  const stripe = new Stripe(apiKey, {
    maxNetworkRetries: 0,
    timeout: TIMEOUT_MS,
    telemetry: false,
    ...(stripeUrl && {
      protocol: stripeUrl.startsWith("http:") ? "http" : "https",
      host: new URL(stripeUrl).hostname,
      port: new URL(stripeUrl).port,
    }),
  });

  async function* pages<T extends { id: string; livemode: boolean }>(
    list: (
      position: { limit: number; starting_after?: string },
    ) => Promise<Stripe.Response<Stripe.ApiList<T>>>,
  ): AsyncGenerator<StripeAnswer<T[]>> {
    let count = 0;
    for (let last: string | undefined, hasMore = true; hasMore;) {
      const after = last === undefined ? {} : { starting_after: last };
      const call = () => list({ limit: ITEMS_PER_PAGE, ...after });
      const { data: page, askedAtSeconds } = await callStripe(call, wait);
      page.data.forEach(checkMode);
      yield { data: page.data, askedAtSeconds };

      count += page.data.length;
      if (count > 0 && count % 1_000 === 0) {
        printError(`${count} read from Stripe`);
      }
      last = page.data.at(-1)?.id;
      hasMore = page.has_more && last !== undefined;
    }
  }

  function checkMode({ id, livemode }: { id: string; livemode: boolean }) {
    if (livemode === (mode === "live")) return;
    throw new Error(
      `${id} is not in ${mode} mode. Check that STRIPE_API_KEY is the right key.`,
    );
  }

  /** Also canceled ones, the newest first. */
  function subscriptions(): AsyncGenerator<Page> {
    return pages((position) =>
      stripe.subscriptions.list({ status: "all", ...position })
    );
  }

  /**
   * Reads some subscriptions, if they still exist: one by one, or from the list of all
   * (`listed` is their number) if that takes fewer calls.
   */
  async function* someSubscriptions(
    ids: readonly string[],
    listed = Infinity,
  ): AsyncGenerator<Page> {
    const left = new Set(ids);
    if (left.size > listed / ITEMS_PER_PAGE) {
      for await (const page of subscriptions()) {
        yield { ...page, data: page.data.filter(({ id }) => left.delete(id)) };
      }
    }

    for (const id of left) {
      try {
        const call = () => stripe.subscriptions.retrieve(id);
        const { data, askedAtSeconds } = await callStripe(call, wait);
        checkMode(data);
        yield { data: [data], askedAtSeconds };
      } catch (error) {
        const { code } = error as { code?: string };
        if (code !== "resource_missing") throw error;
      }
    }
  }

  async function all<T extends { id: string; livemode: boolean }>(
    ...list: Parameters<typeof pages<T>>
  ): Promise<T[]> {
    return (await Array.fromAsync(pages(...list))).flatMap(({ data }) => data);
  }

  return {
    client: stripe,
    subscriptions,
    someSubscriptions,
    /** The events of the last 30 days, the newest first. */
    events: (query: Stripe.EventListParams) =>
      all((position) => stripe.events.list({ ...query, ...position })),
    endpoints: () => all((position) => stripe.webhookEndpoints.list(position)),
  };
}

export function callStripe<T>(
  call: () => Promise<Stripe.Response<T>>,
  wait: Wait,
): Promise<StripeAnswer<T>> {
  return retry(async () => {
    const startedMs = performance.now();
    const data = await call();
    const tookMs = performance.now() - startedMs;

    // The package types them as a plain object; with fetch, they are `Headers`.
    const headers = new Headers(data.lastResponse.headers);
    // RFC 9110, section 6.6.1: in whole seconds.
    const answeredAtMs = Date.parse(headers.get("date") ?? "");
    if (Number.isNaN(answeredAtMs)) {
      throw new Error(
        "Stripe's answer has no Date header, so its time is unknown. Check for a proxy that removes it.",
      );
    }
    return { data, askedAtSeconds: Math.floor((answeredAtMs - tookMs) / 1000) };
  }, wait);
}
