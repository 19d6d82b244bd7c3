/** The life of a subscription at Stripe: what `deno task rehearse` makes and deletes. */
import type Stripe from "stripe";

/** `access`: whether the account has it then; null if the app's grace decides. */
export type Step = readonly [
  name: string,
  access: boolean | null,
  act: () => Promise<unknown>,
];

/** What is read of Stripe's answers. */
interface Made {
  readonly id: string;
  readonly items: { readonly data: readonly [{ readonly id: string }] };
  readonly latest_invoice: string;
  readonly data: readonly Made[];
}

/** @param name The name of all that is made, by which it is found again. */
export function openLife(
  { stripe, name, account }: { stripe: Stripe; name: string; account: string },
) {
  const email = `${name}@example.com`;
  const prices: string[] = [];
  let customer = "";
  let subscription: Made | undefined;

  /** The package repeats a request with the same key, so it has one effect. */
  function send(method: string, path: string, params = {}): Promise<Made> {
    const options = { maxNetworkRetries: 2 };
    return stripe.rawRequest(method, `/v1/${path}`, params, options);
  }

  const make = (path: string, params = {}) => send("POST", path, params);

  async function create() {
    await make("products", { id: name, name });
    for (const unit_amount of [1_000, 2_000]) {
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
    const all = { proration_behavior: "none", ...params };
    subscription = await make(path(), all);
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
    const invoice = subscription!.latest_invoice;
    await make(`invoices/${invoice}/pay`, { payment_method: card });
    await update({ default_payment_method: card });
  }

  const path = (action = "") => `subscriptions/${subscription!.id}${action}`;

  const steps: readonly Step[] = [
    ["created", true, create],
    ["another quantity", true, () => updateItem(prices[0]!, 3)],
    ["another plan", true, () => updateItem(prices[1]!, 3)],
    ["payment fails", null, failToPay],
    ["payment succeeds", true, pay],
    [
      "collection paused",
      false,
      () => update({ pause_collection: { behavior: "void" } }),
    ],
    ["collection resumed", true, () => update({ pause_collection: "" })],
    ["paused", false, () => make(path("/pause"))],
    ["resumed", true, () => make(path("/resume"))],
    ["end planned", true, () => update({ cancel_at_period_end: true })],
    ["end withdrawn", true, () => update({ cancel_at_period_end: false })],
    ["ended", false, () => send("DELETE", path())],
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
