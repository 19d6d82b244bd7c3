/** What a project makes of the life of a subscription. */
import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import { typesOf } from "../../supabase/functions/_shared/billing/events/format.ts";
import { stripe as format } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
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
  readonly account: Readonly<Record<string, string | boolean | null>>;
  /** Between the record and the subscription. */
  readonly difference: Difference | undefined;
}

export interface StepResult extends Partial<Observed> {
  readonly step: string;
  readonly state: "ok" | "FAIL" | "skipped";
  /** Since Stripe's answer. */
  readonly ms?: number;
  /** Why Stripe refused the step. */
  readonly refusal?: string;
}

const POLL_MS = 250;

/** For the steps after one that has failed. */
const SHORT_LIMIT_MS = 10_000;

/** Does the steps one after the other. If the first fails, the others would too. */
export async function* rehearse(
  context: Target & Context & {
    readonly account: string;
    readonly life: ReturnType<typeof openLife>;
    /** How long a step may take. */
    readonly limitMs: number;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<StepResult> {
  const { stripe, account, provider, life, signal } = context;
  const api = openApi(context);
  const since = Math.floor(Date.now() / 1000) - 300;
  const seen = new Set<string>();
  let { limitMs } = context;

  for (const step of life.steps) {
    const result = await take(step);
    for (const { id } of result.events ?? []) seen.add(id);
    yield result;
    if (result.state !== "FAIL") continue;
    if (step === life.steps[0]) return;
    limitMs = Math.min(limitMs, SHORT_LIMIT_MS);
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
  const open = events.filter((event) => !isApplied(event));
  if (open.length > 0) return open.map((event) => whyOpen(event, delivery));

  const what = difference
    ? differenceLine(difference).replace(/ +/, " ")
    : `access is ${account?.access}`;
  return [
    `After "${step}", what came was applied, but ${what}. Look for a trigger of your app on billing.subscriptions, or a function that it has replaced.`,
  ];
}

function whyOpen(
  { type, outcome, error, pending }: SeenEvent,
  { url, provider, endpoint, others }: Delivery,
): string {
  if (outcome !== "missing") {
    const { todo } = ERRORS[outcome as ErrorCode] ?? {};
    return `${type} failed with ${outcome}: ${
      error?.replace(/\.$/, "")
    }. ${todo}`;
  }
  const { enabled_events: selected = ["*"] } = endpoint ?? {};
  if (!selected.includes("*") && !selected.includes(type)) {
    return `The endpoint does not select ${type}. Select it at Stripe: docs/stripe.md, "The endpoint".`;
  }

  const prefix = settingsPrefix(provider);
  if (pending > others) {
    return `The receiver refuses Stripe's events. Its log has the code, most likely signature_mismatch: set ${prefix}SIGNING_SECRET to the secret on the endpoint's page.`;
  }
  const mode =
    `if its log has "event of the other mode ignored", set ${prefix}MODE=test.`;
  return endpoint
    ? `The receiver ignores Stripe's events: ${mode}`
    : `No event is accepted. Does stripe listen run, forward to ${url}, and is its secret ${prefix}SIGNING_SECRET? Else, ${mode}`;
}
