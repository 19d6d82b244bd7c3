/** What a project makes of the life of a subscription. */
import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import { typesOf } from "../../supabase/functions/_shared/billing/events/format.ts";
import { stripe as format } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { ERRORS } from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { nextStep } from "../common/next_step.ts";
import { printError } from "../common/print.ts";
import { openApi } from "../common/project_api.ts";
import type { Context, Target } from "./command.ts";
import { type Difference, differenceLine } from "./differences.ts";
import { comparePage } from "./find_differences.ts";
import type { openLife, Step } from "./life.ts";

export interface SeenEvent {
  readonly id: string;
  readonly type: string;
  /** `applied`, `stale`, the code of its failure, or `missing`. */
  readonly outcome: string;
  readonly error?: string | null;
  /** How many endpoints have not acknowledged it. */
  readonly pending: number;
}

interface Observed {
  readonly events: readonly SeenEvent[];
  /** What `billing_account` answers. */
  readonly account: Readonly<Record<string, unknown>>;
  /** Between the record and the subscription. */
  readonly difference: Difference | undefined;
}

export interface StepResult extends Partial<Observed> {
  readonly step: string;
  readonly state: "ok" | "FAIL" | "skipped";
  /** From Stripe's answer until the record was the same as the subscription. */
  readonly ms?: number;
  /** Why Stripe refused the step. */
  readonly refusal?: string;
}

export interface Rehearsal extends Target, Context {
  readonly account: string;
  readonly life: ReturnType<typeof openLife>;
  /** How long a step may take. */
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

const POLL_MS = 250;
const PROGRESS_MS = 10_000;

/** For the steps after one that has failed. */
const SHORT_LIMIT_MS = 10_000;

/** Does the steps one after the other. If the first fails, the others would too. */
export async function* rehearse(
  context: Rehearsal,
): AsyncGenerator<StepResult> {
  const { stripe, account, provider, life, signal } = context;
  const api = openApi(context);
  const since = Math.floor(Date.now() / 1000) - 300;
  const seen = new Set<string>();
  let limitMs = context.limitMs;

  for (const step of life.steps) {
    const result = await take(step);
    for (const { id } of result.events ?? []) seen.add(id);
    yield result;
    if (result.state !== "FAIL") continue;
    if (step === life.steps[0]) return;
    limitMs = Math.min(limitMs, SHORT_LIMIT_MS);
  }

  async function take({ name, access, act }: Step): Promise<StepResult> {
    try {
      await act();
    } catch (error) {
      const isRefused = error instanceof
        Stripe.errors.StripeInvalidRequestError;
      if (!isRefused || seen.size === 0) throw error;
      // Not every account can pause subscriptions, for example.
      return { step: name, state: "skipped", refusal: error.message };
    }

    const startedMs = performance.now();
    for (let nextMs = PROGRESS_MS;; await sleep(POLL_MS)) {
      signal.throwIfAborted();
      const observed = await observe();
      const ms = Math.round(performance.now() - startedMs);
      const { events, account, difference } = observed;
      const isRight = !difference &&
        (access ?? account.access) === account.access;
      const isSettled = events.length > 0 && events.every(isApplied);
      if (isRight && isSettled) {
        return { step: name, state: "ok", ms, ...observed };
      }
      if (ms >= limitMs) return { step: name, state: "FAIL", ...observed };
      if (ms < nextMs) continue;
      printError(`${name}: waiting for ${nextMs / 1000} s`);
      nextMs += PROGRESS_MS;
    }
  }

  async function observe(): Promise<Observed> {
    const answer = await api.call<Observed["account"]>("account", {
      account_id: account,
    });
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
    return events.map(({ id, type, pending_webhooks: pending }) => {
      const row = applied.find(({ event_id }) => event_id === id);
      const failure = failed.find(({ event_id }) => event_id === id);
      const outcome = row?.outcome ?? failure?.error_code ?? "missing";
      const event = { id, type, outcome, pending };
      return row || !failure ? event : { ...event, error: failure.error };
    });
  }
}

function isApplied({ outcome }: SeenEvent): boolean {
  return /^(applied|stale)$/.test(outcome);
}

interface Delivery {
  readonly url: string;
  readonly provider: string;
  /** Stripe's endpoint; undefined with `stripe listen` or a tunnel. */
  readonly endpoint: Stripe.WebhookEndpoint | undefined;
  /** How many more endpoints get the events. */
  readonly others: number;
}

/** Returns why a step did not hold, and what to do. */
export function reasons(
  { step, state, events = [], account, difference }: StepResult,
  delivery: Delivery,
): string[] {
  if (state !== "FAIL") return [];
  const found = events.filter((event) => !isApplied(event)).map((event) =>
    event.outcome === "missing"
      ? whyMissing(event, delivery)
      : whyFailed(event, delivery)
  );
  if (found.length > 0) return found;

  const what = difference
    ? differenceLine(difference)
    : `billing_account answers access ${account?.access}`;
  return [
    `After "${step}", all events that came were applied, but: ${what}. Look for a trigger on billing.subscriptions, or a function of the receiver that your app has replaced.`,
  ];
}

function whyFailed(
  { type, outcome, error }: SeenEvent,
  { provider }: Delivery,
): string {
  const todo = nextStep(outcome, provider) ?? "";
  return `${type} failed with ${outcome}: ${error} ${todo}`.trim();
}

function whyMissing(
  { type, pending }: SeenEvent,
  { url, provider, endpoint, others }: Delivery,
): string {
  const { enabled_events: selected = ["*"] } = endpoint ?? {};
  if (!selected.includes("*") && !selected.includes(type)) {
    return `The endpoint does not select ${type}. Select it at Stripe: docs/stripe.md, "The endpoint".`;
  }

  const prefix = settingsPrefix(provider);
  if (pending > others) {
    const { todo } = ERRORS.signature_mismatch;
    return `The receiver refuses Stripe's events, and stores no failure. Its log has the reason, most likely signature_mismatch. ${
      todo.replace(settingsPrefix("a"), prefix)
    }`;
  }
  const mode =
    `if the receiver's log has "event of the other mode ignored", set ${prefix}MODE=test.`;
  return endpoint
    ? `The receiver ignores Stripe's events: ${mode}`
    : `No event arrives. Does stripe listen run, and forward to ${url}? Or ${mode}`;
}
