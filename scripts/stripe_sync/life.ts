/** The life of a subscription at Stripe: what `deno task rehearse` makes and deletes. */
import type Stripe from "stripe";

export interface Step {
  readonly name: string;
  /** Whether the account then has access; null if that depends on the app's grace. */
  readonly access: boolean | null;
  readonly act: () => Promise<unknown>;
}

/** What is read of Stripe's answers. */
interface Made {
  readonly id: string;
  readonly items: { readonly data: readonly [{ readonly id: string }] };
  readonly latest_invoice: string;
  readonly data: readonly Made[];
}

/** Prices in the smallest unit of their currency, per month. */
const AMOUNTS = [1_000, 2_000];

/** @param name The name of all that is made, by which it is found again. */
export function openLife(
  { stripe, name, account, signal }: {
    stripe: Stripe;
    name: string;
    account: string;
    /** Checked between requests: one that is under way may make something. */
    signal: AbortSignal;
  },
) {
  const email = `${name}@example.com`;
  const prices: string[] = [];
  let customer = "";
  let subscription: Made | undefined;

  /** The package repeats a request with the same key, so that it has one effect. */
  function send(method: string, path: string, params = {}): Promise<Made> {
    const options = { maxNetworkRetries: 2 };
    return stripe.rawRequest(method, `/v1/${path}`, params, options);
  }

  function make(path: string, params = {}): Promise<Made> {
    signal.throwIfAborted();
    return send("POST", path, params);
  }

  async function create() {
    await make("products", { id: name, name });
    for (const unit_amount of AMOUNTS) {
      const recurring = { interval: "month" };
      const price = { product: name, currency: "usd", unit_amount, recurring };
      prices.push((await make("prices", price)).id);
    }

    ({ id: customer } = await make("customers", { email, name }));
    subscription = await make("subscriptions", {
      customer,
      default_payment_method: await attach("pm_card_visa"),
      items: [{ price: prices[0], quantity: 1 }],
      metadata: { accountId: account },
    });
  }

  async function attach(testCard: string): Promise<string> {
    return (await make(`payment_methods/${testCard}/attach`, { customer })).id;
  }

  async function update(params: object) {
    const path = `subscriptions/${subscription!.id}`;
    const all = { proration_behavior: "none", ...params };
    subscription = await make(path, all);
  }

  function updateItem(price: string, quantity: number) {
    const [{ id }] = subscription!.items.data;
    return update({ items: [{ id, price, quantity }] });
  }

  async function failToPay() {
    await update({
      default_payment_method: await attach("pm_card_chargeCustomerFail"),
      // Begins a period, which is charged at once.
      billing_cycle_anchor: { type: "now" },
      payment_behavior: "allow_incomplete",
    });
  }

  async function pay() {
    const card = await attach("pm_card_visa");
    const path = `invoices/${subscription!.latest_invoice}/pay`;
    await make(path, { payment_method: card });
    await update({ default_payment_method: card });
  }

  const steps: readonly Step[] = [
    { name: "created", access: true, act: create },
    {
      name: "another quantity",
      access: true,
      act: () => updateItem(prices[0]!, 3),
    },
    {
      name: "another plan",
      access: true,
      act: () => updateItem(prices[1]!, 3),
    },
    { name: "payment fails", access: null, act: failToPay },
    { name: "payment succeeds", access: true, act: pay },
    {
      name: "collection paused",
      access: false,
      act: () => update({ pause_collection: { behavior: "void" } }),
    },
    {
      name: "collection resumed",
      access: true,
      act: () => update({ pause_collection: "" }),
    },
    {
      name: "paused",
      access: false,
      act: () => make(`subscriptions/${subscription!.id}/pause`),
    },
    {
      name: "resumed",
      access: true,
      act: () => make(`subscriptions/${subscription!.id}/resume`),
    },
    {
      name: "end planned",
      access: true,
      act: () => update({ cancel_at_period_end: true }),
    },
    {
      name: "end withdrawn",
      access: true,
      act: () => update({ cancel_at_period_end: false }),
    },
    {
      name: "ended",
      access: false,
      act: () => send("DELETE", `subscriptions/${subscription!.id}`),
    },
  ];

  /**
   * Deletes the customer, with the subscription, and archives the product and its prices,
   * which Stripe does not delete. It looks them up, because an answer may have been lost.
   *
   * @returns what is left, with the reason.
   */
  async function remove(): Promise<string[]> {
    const left: string[] = [];
    const attempt = (method: string, path: string, params = {}) =>
      send(method, path, params).catch(({ code, message }) => {
        if (code !== "resource_missing") left.push(`${path}: ${message}`);
      });
    const archived = { active: false };

    const customers = await attempt("GET", `customers?email=${email}`);
    for (const { id } of customers?.data ?? []) {
      await attempt("DELETE", `customers/${id}`);
    }
    const active = await attempt("GET", `prices?active=true&product=${name}`);
    for (const { id } of active?.data ?? []) {
      await attempt("POST", `prices/${id}`, archived);
    }
    await attempt("POST", `products/${name}`, archived);
    return left;
  }

  return {
    steps,
    remove,
    /** Empty texts before they are made. */
    ids: () => ({ customer, subscription: subscription?.id ?? "" }),
  };
}
