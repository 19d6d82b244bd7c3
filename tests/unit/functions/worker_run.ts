/** A run of the worker, in front of a stand-in for the database and its channels. */
import type { Log } from "../../../supabase/functions/_shared/billing/log.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import type {
  Alert,
  Attempt,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import {
  handleWake,
  type Worker,
} from "../../../supabase/functions/billing-worker/handle_wake.ts";
import { settle } from "../../support/fake_timers.ts";
import {
  FAILED,
  fakeDatabase,
  NO_FURTHER,
  NOTIFICATION,
  stripeEvent,
} from "./fixtures.ts";

export type Failure = [settled: string, body: Body, outcomeOrCode?: string];
type Body = string | Uint8Array;

export type Answer = (signal: AbortSignal) => Response | Promise<Response>;

export interface Setting {
  /** What the calls return, by name and in order; then nothing. */
  due?: Record<string, unknown[][]>;
  /** The first batch of failures that are due: evt_0 and so on. */
  failures?: readonly Failure[];
  answers?: Record<string, Answer>;
  /** What it is woken for; by default everything, as by the schedule. */
  queue?: string | undefined;
  attempt?: (id: string) => Attempt;
  perSecond?: number;
  worker?: Partial<Worker>;
}

export interface Applied {
  provider: string;
  retry: { event_id: string; lease_id: string };
}

export const eventOf = (type: string, changes: Record<string, unknown> = {}) =>
  JSON.stringify(stripeEvent(type, changes));
export const INVOICE = eventOf(FAILED);
export const RETRIED: Setting = { failures: [["", INVOICE]] };

export function claimed([, body]: Failure, index: number) {
  const row = { provider: "b", event_id: `evt_${index}`, type: "x" };
  return typeof body === "string"
    ? { ...row, body, body_encoding: "json" }
    : { ...row, body: body.toBase64(), body_encoding: "base64" };
}

function outcomesOf(events: readonly Applied[], failures: readonly Failure[]) {
  return events.map(({ retry: { event_id } }, i) => {
    const [, , said = "applied"] = failures[Number(event_id.slice(4))] ?? [];
    return /\d/.test(said)
      ? { place: i + 1, outcome: "failed", error_code: said, error: "says" }
      : { place: i + 1, outcome: said };
  }).reverse();
}

const words = (text: string) => text.split(" ").filter(Boolean);

export function notifications(results: string): Notification[] {
  return words(results).map((result, i) => {
    return { ...NOTIFICATION, id: `${i} ${result}` };
  });
}

function attemptOf(id: string): Attempt {
  const [, result = "sent"] = words(id);
  return result === "sent"
    ? { result }
    : { result: result as "failed", error: "no" };
}

export function countsOf(results: string) {
  const all = words(results);
  const names = words("sent failed dead undeliverable limited unsent");
  const counts = names.map((name) => {
    return [name, all.filter((result) => result === name).length];
  });
  return { claimed: all.length, ...Object.fromEntries(counts) };
}

export async function wake(
  { due = {}, failures = [], answers = {}, attempt = attemptOf, ...setting }:
    Setting = {},
  method = "POST",
) {
  const { perSecond, queue } = setting;
  const sent: string[] = [];
  const lines: Parameters<Log>[] = [];
  const leases = new Set<unknown>();

  const queued: typeof due = {
    claim_failed_events: [failures.map(claimed)],
    ...due,
  };
  const { database, calls } = fakeDatabase((name, body, { signal }) => {
    const events =
      (body.events ?? (body.event ? [body.event] : [])) as Applied[];
    for (const { retry } of events) leases.add(retry.lease_id);
    if (events.length === 0) leases.add(body.lease_id);

    const answer = answers[body.queue ? `${name} ${body.queue}` : name];
    if (answer) return answer(signal);
    const rows = name.startsWith("apply_")
      ? outcomesOf(events, failures)
      : queued[name]?.shift() ?? [];
    return Response.json(rows);
  });

  const channel = {
    destination: "hooks.test",
    ...(perSecond !== undefined && { perSecond }),
    send: ({ id }: Notification | Alert) => {
      sent.push(id);
      return Promise.resolve(attempt(id));
    },
  } as const;
  // With a rate limit one after the other, whatever the clock does.
  let turn = Promise.resolve();
  const pace = () => perSecond ? turn = turn.then(settle) : turn;

  const search = queue ? `?queue=${queue}` : "";
  const request = new Request(`http://worker.test/${search}`, { method });
  const response = await handleWake(request, {
    ...NO_FURTHER,
    database,
    toleranceSeconds: 300,
    clock: Date.now,
    unmappedSubscriptions: "fail",
    oncePerInvoice: false,
    readingSettings: () => ({ format: stripe, mode: "any", connect: true }),
    keyedProviders: [],
    channel,
    alertChannel: { ...channel, destination: "alerts to ops.test" },
    log: (...line) => lines.push(line),
    pace,
    ...setting.worker,
  });
  const text = await response.text();
  const counts = response.status === 200 ? JSON.parse(text) : {};
  const named = (part: RegExp) => calls.filter(([name]) => part.test(name));
  return { counts, response, text, calls, named, sent, lines, leases };
}
