/** The life of a subscription at Stripe, and what a project makes of it. */
import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import { typesOf } from "../../supabase/functions/_shared/billing/events/format.ts";
import { stripe as format } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { printError } from "../common/cli.ts";
import { openApi } from "../common/project_api.ts";
import type { Context, Target } from "./command.ts";
import type { Difference } from "./differences.ts";
import { comparePage } from "./find_differences.ts";

/** `access`: whether the account has it then; null if the app's grace decides. */
type Step = readonly [
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
  let customer = "";
  let subscription: Made | undefined;

  /** The package repeats a request with the same key, so it has one effect. */
  function send(method: string, path: string, params = {}): Promise<Made> {
    const options = { maxNetworkRetries: 2 };
    return stripe.rawRequest(method, `/v1/${path}`, params, options);
  }

  const make = (path: string, params = {}) => send("POST", path, params);
  const path = (action = "") => `subscriptions/${subscription!.id}${action}`;

  /** The price that this makes is for this subscription only, and never active. */
  const item = (unit_amount: number, quantity: number) => ({
    price_data: {
      product: name,
      currency: "usd",
      unit_amount,
      recurring: { interval: "month" },
    },
    quantity,
  });

  async function create() {
    await make("products", { id: name, name });
    ({ id: customer } = await make("customers", { email, name }));
    subscription = await make("subscriptions", {
      customer,
      default_payment_method: await attach("pm_card_visa"),
      items: [item(1_000, 1)],
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

  function updateItem(changes: object) {
    const [{ id }] = subscription!.items.data;
    return update({ items: [{ id, ...changes }] });
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

  const steps: readonly Step[] = [
    ["created", true, create],
    ["another quantity", true, () => updateItem({ quantity: 3 })],
    ["another plan", true, () => updateItem(item(2_000, 3))],
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
   * Deletes the customer, with the subscription, and archives the product, which Stripe
   * does not delete. It looks the customer up, because an answer may have been lost.
   *
   * @returns what is left, with the reason.
   */
  async function remove(): Promise<string[]> {
    const left: string[] = [];
    const attempt = (method: string, path: string, params = {}) =>
      send(method, path, params).catch(({ code, message }) => {
        if (code !== "resource_missing") left.push(`${path}: ${message}`);
      });

    const customers = await attempt("GET", `customers?email=${email}`);
    for (const { id } of customers?.data ?? []) {
      await attempt("DELETE", `customers/${id}`);
    }
    await attempt("POST", `products/${name}`, { active: false });
    return left;
  }

  return {
    steps,
    remove,
    /** Empty texts before they are made. */
    ids: () => ({ customer, subscription: subscription?.id ?? "" }),
  };
}

export interface StepResult {
  readonly step: string;
  readonly state: "ok" | "FAIL" | "skipped";
  /** Why Stripe refused the step. */
  readonly refusal?: string;
  /** Since Stripe's answer. */
  readonly ms?: number;
  readonly events?: readonly SeenEvent[];
  /** What `billing_account` answers. */
  readonly account?: Readonly<Record<string, string | boolean | null>>;
  /** Between the record and the subscription. */
  readonly difference?: Difference | undefined;
}

interface SeenEvent {
  readonly id: string;
  readonly type: string;
  /** `applied`, `stale`, the code of its failure, or `missing`. */
  readonly outcome: string;
  readonly error: string | null | undefined;
}

export function isApplied({ outcome }: SeenEvent): boolean {
  return /^(applied|stale)$/.test(outcome);
}

const POLL_MS = 250;

/** Does the steps one after the other. If the first fails, the others would too. */
export async function* rehearse(
  context: Target & Context & {
    readonly account: string;
    readonly life: ReturnType<typeof openLife>;
    readonly limitMs: number;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<StepResult> {
  const { stripe, account, provider, life, limitMs, signal } = context;
  const api = openApi(context);
  const since = Math.floor(Date.now() / 1000) - 300;
  const seen = new Set<string>();

  for (const step of life.steps) {
    const result = await take(step);
    for (const { id } of result.events ?? []) seen.add(id);
    yield result;
    if (result.state === "FAIL" && step === life.steps[0]) return;
  }

  async function take([step, access, act]: Step): Promise<StepResult> {
    printError(`${step}: takes at most ${limitMs / 1000} s`);
    try {
      await act();
    } catch (error) {
      const isRefused = error instanceof
        Stripe.errors.StripeInvalidRequestError;
      if (!isRefused || seen.size === 0) throw error;
      // Not every account can pause subscriptions, for example.
      return { step, state: "skipped", refusal: error.message };
    }

    const startedMs = performance.now();
    for (;; await sleep(POLL_MS)) {
      // Not within a step, which may be about to make something.
      signal.throwIfAborted();
      const observed = await observe();
      const ms = Math.round(performance.now() - startedMs);
      const { events, account, difference } = observed;
      const holds = !difference && events.length > 0 &&
        events.every(isApplied) && [account.access, null].includes(access);
      if (holds) return { step, state: "ok", ms, ...observed };
      if (ms >= limitMs) return { step, state: "FAIL", ms, ...observed };
    }
  }

  async function observe() {
    const answer = await api.call<NonNullable<StepResult["account"]>>(
      "account",
      { account_id: account },
    );
    const { subscription } = life.ids();
    const [page] = await Array.fromAsync(
      stripe.someSubscriptions([subscription]),
    );
    const [compared] = page ? await comparePage(page, context) : [];
    const difference = compared?.difference;
    return { events: await newEvents(), account: answer, difference };
  }

  /** Returns the customer's events that no earlier step has seen, the oldest first. */
  async function newEvents(): Promise<SeenEvent[]> {
    const { customer } = life.ids();
    const types = [...typesOf(format)];
    const all = await stripe.events({ types, created: { gte: since } });
    const events = all.reverse().filter(({ id, data: { object } }) =>
      !seen.has(id) && "customer" in object && object.customer === customer
    );

    const query = {
      provider: `eq.${provider}`,
      event_id: `in.(${events.map(({ id }) => id).join()})`,
    };
    const applied = await api.read("billing_processed_events", query);
    const failed = await api.read("billing_failed_events", query);
    return events.map(({ id, type }) => {
      const row = applied.find(({ event_id }) => event_id === id);
      const failure = failed.find(({ event_id }) => event_id === id);
      const outcome = row?.outcome ?? failure?.error_code ?? "missing";
      return { id, type, outcome, error: failure?.error };
    });
  }
}
