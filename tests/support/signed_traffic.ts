import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import type { Platform } from "./platform.ts";
import { post, type ProviderName } from "./send.ts";
import { hmacHex, stripeHeader } from "./sign.ts";

/** A delivery and how it ended. */
export interface Delivered {
  readonly provider: ProviderName;
  readonly eventId: string;
  readonly body: string;
  /** 0 if there was no answer. */
  readonly status: number;
}

/** Both providers, sending one event after the other. */
export interface SignedTraffic extends AsyncDisposable {
  /** Everything that was answered, in order. */
  readonly deliveries: readonly Delivered[];
  /**
   * From now on a provider signs with these. A sends a signature of each, as
   * Stripe does while a secret is rolled; B has room for one, and takes them
   * in turn, like a provider whose machines change over one by one.
   */
  signWith(provider: ProviderName, secrets: readonly string[]): void;
  /** Resolves when each provider has had a number of answers more. */
  goesOn(): Promise<void>;
  /** Sends one again, signed anew as the provider signs now. */
  retry(delivery: Delivered): Promise<Delivered>;
}

const PROVIDERS = ["a", "b"] as const;
/** Between two deliveries of a provider: some tens per second. */
const PAUSE_MS = 10;
/** A run needs a few hundred. */
const MOST = 4_000;
const GOES_ON = 20;

/**
 * Starts to send creations, each of a subscription of its own.
 *
 * @param signing What each provider signs with at first.
 */
export function startTraffic(
  platform: Platform,
  signing: Record<ProviderName, readonly string[]>,
): SignedTraffic {
  const secrets = { ...signing };
  const deliveries: Delivered[] = [];
  let stopped = false;

  async function deliver(
    { provider, eventId, body }: Omit<Delivered, "status">,
    number: number,
  ): Promise<Delivered> {
    const headers = await SIGN[provider](body, {
      secrets: secrets[provider],
      number,
    });
    // Which of two processes has nothing to do with which of two secrets.
    const status = await platform.pass(
      async (url) => (await post(url, { headers, body })).status,
      { number: number >> 1 },
    ).catch(() => 0);
    return { provider, eventId, body, status };
  }

  async function send(provider: ProviderName): Promise<void> {
    for (let number = 0; !stopped && deliveries.length < MOST; number++) {
      const event = subscriptionEvent("customer.subscription.created");
      const body = JSON.stringify(event);
      const delivery = { provider, eventId: event.id, body };
      deliveries.push(await deliver(delivery, number));
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  const senders = Promise.all(PROVIDERS.map(send));
  return {
    deliveries,
    signWith: (provider, changed) => {
      secrets[provider] = changed;
    },
    goesOn: async () => {
      const from = deliveries.length;
      const isDone = () =>
        PROVIDERS.every((name) =>
          deliveries.slice(from).filter(({ provider }) => provider === name)
            .length >= GOES_ON
        );
      if (await waitUntil(isDone, { timeoutMs: HANG_LIMIT_MS })) return;
      throw new Error(`The traffic stopped after ${deliveries.length}`);
    },
    retry: (delivery) => deliver(delivery, 0),
    [Symbol.asyncDispose]: async () => {
      stopped = true;
      await senders;
    },
  };
}

const SIGN: Record<
  ProviderName,
  (
    body: string,
    options: { secrets: readonly string[]; number: number },
  ) => Promise<Record<string, string>>
> = { a: signLikeStripe, b: signPlainly };

async function signLikeStripe(
  body: string,
  { secrets, number }: { secrets: readonly string[]; number: number },
): Promise<Record<string, string>> {
  const timestamp = Math.floor(Date.now() / 1000);
  const [first = "", ...others] = await Promise.all(
    // Stripe does not say which comes first.
    (number % 2 === 0 ? secrets : secrets.toReversed())
      .map((secret) => stripeHeader(body, { secret, timestamp })),
  );
  const macs = others.map((header) => header.replace(/^t=\d+/, ""));
  return { "provider-a-signature": first + macs.join("") };
}

function signPlainly(
  body: string,
  { secrets, number }: { secrets: readonly string[]; number: number },
): Promise<Record<string, string>> {
  const mac = hmacHex(secrets[number % secrets.length] ?? "", body);
  return Promise.resolve({ "provider-b-signature": mac });
}
