/** The life of a subscription at Stripe: what `deno task rehearse` makes and deletes. */
import type Stripe from "stripe";
import type { AccountAnswer } from "../common/project_api.ts";
import { retry, type Wait } from "./retry.ts";

/** The fields of `billing_account` that a step leads to. */
export type Expected = Partial<AccountAnswer>;

export interface Step {
  readonly name: string;
  /** An event of each has to come. */
  readonly types: readonly string[];
  readonly act: () => Promise<Expected>;
  /** Whether Stripe may refuse it, because the account lacks the feature. */
  readonly isOptional?: boolean;
}

export type Life = ReturnType<typeof openLife>;

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";

/** @param name Part of the names of all that is made, by which it is found again. */
export function openLife(
  { stripe, name, account, signal, wait }: {
    stripe: Stripe;
    name: string;
    account: string;
    /** Checked between calls: one that is under way may make something. */
    signal: AbortSignal;
    wait: Wait;
  },
) {
  const email = `${name}@example.com`;
  let customer = "";
  let subscription: Stripe.Subscription | undefined;
  const plans: string[] = [];

  /** Repeats a call with the same key, with which it takes effect once. */
  function call<T>(
    send: (options: Stripe.RequestOptions) => Promise<T>,
  ): Promise<T> {
    const options = { idempotencyKey: crypto.randomUUID() };
    return retry(() => send(options), wait);
  }

  function make<T>(...args: Parameters<typeof call<T>>): Promise<T> {
    signal.throwIfAborted();
    return call(...args);
  }

  async function makeCatalogue() {
    const product = { id: name, name };
    await make((key) => stripe.products.create(product, key));
    for (const unit_amount of [1_000, 2_000]) {
      const price = {
        product: name,
        currency: "usd",
        unit_amount,
        recurring: { interval: "month" as const },
      };
      const { id } = await make((key) => stripe.prices.create(price, key));
      plans.push(id);
    }
  }

  /** Returns the payment method of one of Stripe's test cards. */
  async function useCard(card: string): Promise<string> {
    const { id } = await make((key) =>
      stripe.paymentMethods.attach(card, { customer }, key)
    );
    return id;
  }

  async function update(
    changes: Stripe.SubscriptionUpdateParams,
    expected: Expected,
  ): Promise<Expected> {
    const { id } = subscription!;
    const params = { proration_behavior: "none" as const, ...changes };
    subscription = await make((key) =>
      stripe.subscriptions.update(id, params, key)
    );
    return expected;
  }

  function updateItem(plan: string, quantity: number): Promise<Expected> {
    const { id } = subscription!.items.data[0]!;
    const items = [{ id, price: plan, quantity }];
    return update({ items }, { plan_id: plan, quantity });
  }

  const whole = { access: true, status: "active", paused: false };
  const steps: readonly Step[] = [{
    name: "created",
    types: [CREATED],
    async act() {
      await makeCatalogue();
      ({ id: customer } = await make((key) =>
        stripe.customers.create({ email, name }, key)
      ));
      const [plan = ""] = plans;
      const params = {
        customer,
        default_payment_method: await useCard("pm_card_visa"),
        items: [{ price: plan, quantity: 1 }],
        metadata: { accountId: account },
      };
      subscription = await make((key) =>
        stripe.subscriptions.create(params, key)
      );
      return { ...whole, plan_id: plan, quantity: 1, cancel_at: null };
    },
  }, {
    name: "another quantity",
    types: [UPDATED],
    act: () => updateItem(plans[0]!, 3),
  }, {
    name: "another plan",
    types: [UPDATED],
    act: () => updateItem(plans[1]!, 3),
  }, {
    name: "payment fails",
    types: ["invoice.payment_failed", UPDATED],
    async act() {
      return await update({
        default_payment_method: await useCard("pm_card_chargeCustomerFail"),
        // Begins a period, which is paid for at once.
        billing_cycle_anchor: { type: "now" },
        payment_behavior: "allow_incomplete",
      }, { status: "past_due" });
    },
  }, {
    name: "payment succeeds",
    types: [UPDATED],
    async act() {
      const card = await useCard("pm_card_visa");
      const { latest_invoice: invoice } = subscription!;
      const id = typeof invoice === "string" ? invoice : invoice!.id;
      const params = { payment_method: card };
      await make((key) => stripe.invoices.pay(id, params, key));
      await update({ default_payment_method: card }, {});
      return whole;
    },
  }, {
    name: "collection pauses",
    types: [UPDATED],
    act: () =>
      update({ pause_collection: { behavior: "void" } }, {
        access: false,
        paused: true,
      }),
  }, {
    name: "collection goes on",
    types: [UPDATED],
    act: () => update({ pause_collection: "" }, whole),
  }, {
    name: "paused",
    types: ["customer.subscription.paused"],
    isOptional: true,
    async act() {
      const { id } = subscription!;
      await make((key) => stripe.subscriptions.pause(id, {}, key));
      return { access: false, status: "paused", paused: true };
    },
  }, {
    name: "resumed",
    types: ["customer.subscription.resumed"],
    isOptional: true,
    async act() {
      const { id } = subscription!;
      await make((key) => stripe.subscriptions.resume(id, {}, key));
      return whole;
    },
  }, {
    name: "end planned",
    types: [UPDATED],
    async act() {
      await update({ cancel_at_period_end: true }, {});
      const { cancel_at, items } = subscription!;
      const end = cancel_at ?? items.data[0]!.current_period_end;
      return { access: true, cancel_at: new Date(end * 1000).toISOString() };
    },
  }, {
    name: "end withdrawn",
    types: [UPDATED],
    act: () => update({ cancel_at_period_end: false }, { cancel_at: null }),
  }, {
    name: "ended",
    types: ["customer.subscription.deleted"],
    async act() {
      const { id } = subscription!;
      await make((key) => stripe.subscriptions.cancel(id, {}, key));
      return { access: false, status: "canceled" };
    },
  }];

  /**
   * Deletes the customer, with the subscription, and archives the product and its prices,
   * which Stripe does not delete. They are looked up, as an answer may have been lost.
   *
   * @returns what is left, with the reason.
   */
  async function remove(): Promise<string[]> {
    const left: string[] = [];
    const attempt = async (what: string, work: () => Promise<unknown>) => {
      await work().catch(({ code, message }) => {
        if (code !== "resource_missing") left.push(`${what}: ${message}`);
      });
    };

    await attempt(`customers with the address ${email}`, async () => {
      const { data } = await call(() => stripe.customers.list({ email }));
      for (const { id } of data) {
        await attempt(id, () => call((key) => stripe.customers.del(id, key)));
      }
    });
    const archived = { active: false };
    await attempt(`prices of the product ${name}`, async () => {
      const { data } = await call(() =>
        stripe.prices.list({ product: name, active: true })
      );
      for (const { id } of data) {
        await attempt(
          id,
          () => call((key) => stripe.prices.update(id, archived, key)),
        );
      }
    });
    await attempt(
      `product ${name}`,
      () => call((key) => stripe.products.update(name, archived, key)),
    );
    return left;
  }

  return {
    steps,
    remove,
    customer: () => customer,
    subscription: () => subscription?.id,
  };
}
