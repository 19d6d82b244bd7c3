/** What a project makes of the steps of a rehearsal. */
import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import { stripe as format } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { printError } from "../common/print.ts";
import {
  type AccountAnswer,
  openApi,
  type ProjectAccess,
  type Row,
} from "../common/project_api.ts";
import type { Expected, Life, Step } from "./life.ts";
import { retry, type Wait } from "./retry.ts";

export interface SeenEvent {
  readonly id: string;
  readonly type: string;
  readonly api_version: string | null;
  /** How many endpoints have not acknowledged it. */
  readonly pending: number;
  /** `missing`: the project has neither applied it nor stored it as a failure. */
  readonly outcome: "applied" | "stale" | "failed" | "missing";
  readonly error_code?: string;
  readonly error?: string | null;
}

export interface StepResult {
  readonly step: string;
  readonly state: "ok" | "FAIL" | "skipped";
  /** From Stripe's answer until `billing_account` had the expected values. */
  readonly ms?: number;
  readonly events: readonly SeenEvent[];
  /** Types of which Stripe made no event. */
  readonly lacking: readonly string[];
  readonly expected: Expected;
  readonly account?: AccountAnswer;
  /** The fields of the account that have other values. */
  readonly differing: readonly (keyof Expected)[];
  /** Why Stripe refused the step. */
  readonly refusal?: string;
}

type Observed = Pick<
  StepResult,
  "events" | "lacking" | "account" | "differing"
>;

const TYPES = Object.keys(format.kinds);

const POLL_MS = 250;
const PROGRESS_MS = 10_000;

/** After a step has failed, the next ones hardly succeed. */
const SHORT_LIMIT_MS = 10_000;

/** Does the steps one after the other. If the first fails, the others would too. */
export async function* rehearse(
  { stripe, project, provider, account, life, limitMs, signal, wait }: {
    stripe: Stripe;
    project: ProjectAccess;
    provider: string;
    account: string;
    life: Life;
    /** How long a step may take. */
    limitMs: number;
    signal: AbortSignal;
    wait: Wait;
  },
): AsyncGenerator<StepResult> {
  const api = openApi(project);
  const startedAtSeconds = Math.floor(Date.now() / 1000);
  const seen = new Set<string>();
  let limit = limitMs;

  for (const step of life.steps) {
    signal.throwIfAborted();
    const result = await take(step);
    for (const { id } of result.events) seen.add(id);
    yield result;

    if (result.state !== "FAIL") continue;
    limit = Math.min(limitMs, SHORT_LIMIT_MS);
    if (step === life.steps[0]) return;
  }

  async function take(step: Step): Promise<StepResult> {
    const name = step.name;
    const nothing = { events: [], lacking: [], expected: {}, differing: [] };
    let expected: Expected;
    try {
      expected = await step.act();
    } catch (error) {
      const isRefusal = error instanceof
        Stripe.errors.StripeInvalidRequestError;
      if (!step.isOptional || !isRefusal) throw error;
      const { message } = error;
      return { ...nothing, step: name, state: "skipped", refusal: message };
    }

    const startedMs = performance.now();
    const passedMs = () => Math.round(performance.now() - startedMs);
    let ms: number | undefined;
    for (let told = PROGRESS_MS;; await sleep(POLL_MS)) {
      signal.throwIfAborted();
      const observed = await observe(step, expected);
      const { events, lacking, differing } = observed;
      if (differing.length === 0) ms ??= passedMs();

      const isSettled = lacking.length === 0 &&
        events.every(({ outcome }) => /applied|stale/.test(outcome));
      const isDone = isSettled && differing.length === 0;
      if (isDone || passedMs() >= limit) {
        const state = isDone ? "ok" : "FAIL";
        const time = ms === undefined ? {} : { ms };
        return { step: name, state, ...time, expected, ...observed };
      }
      if (passedMs() < told) continue;
      printError(`${name}: waiting (${told / 1000} s of ${limit / 1000} s)`);
      told += PROGRESS_MS;
    }
  }

  async function observe(step: Step, expected: Expected): Promise<Observed> {
    const answer = await api.call<AccountAnswer>("account", {
      account_id: account,
    });
    const differing = (Object.keys(expected) as (keyof Expected)[])
      .filter((field) => !isSame(answer[field], expected[field]));

    const events = await newEvents();
    const lacking = step.types.filter((type) =>
      !events.some((event) => event.type === type)
    );
    return { events, lacking, account: answer, differing };
  }

  /** Lists the events of the customer that no earlier step has seen. */
  async function newEvents(): Promise<SeenEvent[]> {
    const query = { types: TYPES, created: { gte: startedAtSeconds - 300 } };
    const listed = await retry(
      () => Array.fromAsync(stripe.events.list({ ...query, limit: 100 })),
      wait,
    );
    const events = listed.filter(({ id, data }) => {
      const { customer } = data.object as { customer?: string };
      return customer === life.customer() && !seen.has(id);
    });
    if (events.length === 0) return [];

    const these = {
      provider: `eq.${provider}`,
      event_id: `in.(${events.map(({ id }) => id).join()})`,
    };
    const applied = await api.read("billing_processed_events", these);
    const failed = await api.read("billing_failed_events", {
      ...these,
      select: "event_id,error_code,error",
      resolved_at: "is.null",
    });
    // Stripe lists the newest first.
    return events.reverse().map(
      ({ id, type, api_version, pending_webhooks }) => {
        const isThis = ({ event_id }: { event_id: string | null }) =>
          event_id === id;
        const event = { id, type, api_version, pending: pending_webhooks };
        const outcome = applied.find(isThis)?.outcome as "applied" | "stale";
        const failure = failed.find(isThis);
        if (outcome) return { ...event, outcome };
        if (!failure) return { ...event, outcome: "missing" };
        const { error_code, error } = failure;
        return { ...event, outcome: "failed", error_code: error_code!, error };
      },
    );
  }
}

/** The API writes times in another form. */
function isSame(actual: unknown, expected: unknown): boolean {
  const time = Date.parse(`${expected}`);
  return typeof expected === "string" && expected.endsWith("Z") &&
      !Number.isNaN(time)
    ? Date.parse(`${actual}`) === time
    : actual === expected;
}

/** The rows of a project that name an account or its subscription, by table. */
export async function rowsOf(
  project: ProjectAccess,
  account: string,
  subscription = "none",
) {
  const api = openApi(project);
  const either = (column: string) => ({
    or: `(account_id.eq.${account},${column}.eq.${subscription})`,
  });
  const bySubscription = either("subscription_id");
  return {
    subscriptions: await api.read("billing_records", either("id")),
    failed_events: await api.read("billing_failed_events", bySubscription),
    notifications: await api.read("billing_notifications", bySubscription),
    customers: await api.read("billing_customers", {
      account_id: `eq.${account}`,
    }),
  };
}

export type Rows = Readonly<
  & { health: Row<"billing_health"> | undefined }
  & Awaited<
    ReturnType<typeof rowsOf>
  >
>;
