/** Turns the events of every format into events on the wire. */
import { DeliveryError } from "../errors.ts";
import type { Payment, Report, ReportedItem, WireEvent } from "./event.ts";
import type { PlanItem } from "./event_settings.ts";
import {
  accountIn,
  at,
  type Check,
  Fault,
  identifier,
  identifierOrNull,
  instant,
  instantOrNull,
  isAbsent,
  object,
  type Reader,
  readerOf,
  textOf,
} from "./fields.ts";
import { fallbackOf, type Format, kindOf, type Parts } from "./format.ts";

interface Definition extends Omit<Format, "read" | "occurredAt" | "partsOf"> {
  /** By default RFC 3339 or null, like `periodEnd`. */
  readonly occurredAt?: Format["occurredAt"];
  readonly periodEnd?: Check<string | null>;
  /** The status of a creation; required by default. */
  readonly firstStatus?: Check<string | null>;
  /** By default, returns whether the event's type begins with `subscription.`. */
  isSubscription?(event: unknown): boolean;
  /** Returns the parts that differ from the values at their paths. */
  partsOf?(event: unknown, stated: Parts): Partial<Parts>;
  /** It never throws. Optional columns default to null, and must be null if malformed. */
  report(data: Reader, planItem: PlanItem, event: unknown): StatedReport;
  /**
   * Returns the values that an update replaced; null if the event does not state them.
   * They break ties, and show that a subscription recovered.
   */
  previous?(event: unknown, planItem: PlanItem): Partial<Report> | null;
  /** Returns the details of a failed payment or a notice; undefined for no notification. */
  payment(data: Reader, type: string): Omit<Payment, "kind"> | undefined;
  /** Returns the paths that depend on the event. */
  namesOf?(event: unknown, planItem: PlanItem): Record<string, unknown>;
}

/** The columns that a change must state. */
type Essential = "plan_id" | "provider_status" | "current_period_end";

/** A report whose essential columns are not yet validated. */
type StatedReport =
  & Partial<Omit<Report, Essential>>
  & Record<Essential, unknown>;

type Reading = Readonly<{
  event: unknown;
  parts: Parts;
  planItem: PlanItem;
  customer_id: string | null;
  valid: ReturnType<typeof validator>["valid"];
}>;

const NO_REPORT: Omit<Report, Essential> = {
  customer_id: null,
  quantity: null,
  cancel_at: null,
  trial_end: null,
  paused: null,
  paused_until: null,
  livemode: null,
  items: [],
  items_complete: true,
};

const NO_ITEM: ReportedItem = {
  item_id: null,
  price_id: null,
  product_id: null,
  quantity: null,
  usage_type: null,
  current_period_end: null,
};

export function itemOf(stated: Partial<ReportedItem>): ReportedItem {
  return { ...NO_ITEM, ...stated };
}

export function defineFormat(definition: Definition): Format {
  const {
    names,
    idOf,
    kinds,
    notices,
    occurredAt = (time) => isAbsent(time) ? null : instant(time),
    periodEnd = instantOrNull,
    firstStatus = identifier,
    isSubscription = (event) =>
      textOf(at(event, names.type)).startsWith("subscription."),
  } = definition;
  // If updates can create the record, deletions can too.
  const canOpen = Object.values(kinds).includes("opening_update");

  function partsOf(event: unknown): Parts {
    const { get } = readerOf(event);
    // Null if the event belongs to no subscription.
    const subscription_id = isSubscription(event)
      ? get(names.subscription_id) ?? undefined
      : get(names.payment_subscription_id) ?? null;
    const stated = {
      type: get(names.type),
      id: idOf ? undefined : get(names.id),
      occurred_at: get(names.occurred_at),
      subscription_id,
      customer_id: get(names.customer_id),
      accounts: names.account_ids.map(get),
      fallback_account: names.fallback_account && get(names.fallback_account),
      data: get(names.data),
    };
    return { ...stated, ...definition.partsOf?.(event, stated) };
  }

  const read: Format["read"] = (
    event,
    { planItem, takesEffect, parts = partsOf(event), id = parts.id },
  ) => {
    const kind = (takesEffect && kindOf(definition, parts.type)) || "other";
    const customer_id = identifierOrNull(parts.customer_id);
    const { valid, faults } = validator();

    const common: WireEvent = {
      event_id: valid("id", id, identifier),
      type: valid("type", parts.type, identifier),
      kind,
      occurred_at: valid("occurred_at", parts.occurred_at, occurredAt),
      report: { customer_id },
    };
    const reading = { event, parts, planItem, customer_id, valid };
    const effect = effectOf(kind, reading);
    if (faults.size > 0) {
      const message = describe(faults, pathsOf(reading));
      throw new DeliveryError("event_invalid", message);
    }
    return { ...common, ...effect };
  };

  function effectOf(
    kind: WireEvent["kind"],
    reading: Reading,
  ): Partial<WireEvent> {
    const { event, parts, planItem, customer_id, valid } = reading;
    if (kind === "other") {
      // Customer and subscription show whether the event's account was erased.
      const subscription_id = identifierOrNull(parts.subscription_id);
      return { report: { customer_id, subscription_id } };
    }

    valid("data", parts.data, object);
    const isPayment = kind === "payment_failed" || kind === "notice";
    if (isPayment && parts.subscription_id === null) {
      return { kind: "other", subscription_id: null };
    }

    const { subscription_id: stated } = parts;
    const subscription_id = valid("subscription_id", stated, identifier);
    if (isPayment) {
      const type = textOf(parts.type);
      const payment = definition.payment(readerOf(parts.data), type);
      const kind = notices?.[type] ?? "payment_failed";
      return {
        subscription_id,
        ...(payment && { payment: { ...payment, kind } }),
      };
    }

    if (kind === "deletion") {
      // It creates the record if it states all that an update must.
      const { valid, faults } = validator();
      const change = canOpen &&
        changeOf("opening_update", { ...reading, valid });
      return {
        subscription_id,
        ...(change && faults.size === 0 && change),
        payment: { kind: "ended" },
      };
    }

    const change = { subscription_id, ...changeOf(kind, reading) };
    if (kind === "creation") return change;
    const previous = definition.previous?.(event, planItem) ?? null;
    const mayRecover = change.report.provider_status === "active" &&
      (previous === null || previous.provider_status !== undefined);
    return {
      ...change,
      previous,
      ...(mayRecover && { payment: { kind: "recovered" } }),
    };
  }

  /** Returns what a change sets: its report, and its account if it may create the record. */
  function changeOf(
    kind: WireEvent["kind"],
    { event, parts, planItem, customer_id, valid }: Reading,
  ) {
    const stated = definition.report(readerOf(parts.data), planItem, event);
    const { plan_id, current_period_end, provider_status } = stated;
    const report = {
      ...NO_REPORT,
      ...stated,
      customer_id,
      plan_id: valid("plan_id", plan_id, identifier),
      current_period_end: valid(
        "current_period_end",
        current_period_end,
        periodEnd,
      ),
      provider_status: valid(
        "provider_status",
        provider_status,
        kind === "creation" ? firstStatus : identifier,
      ),
    };
    if (kind === "update") return { report };

    // The first place that names an account counts, even if it is not valid.
    const account = parts.accounts.map(accountIn)
      .find((account) => account !== undefined);
    if (account !== undefined) {
      return { report, account_id: valid("account_id", account, identifier) };
    }
    const fallback_account = fallbackOf(parts);
    return {
      report,
      account_id: null,
      ...(fallback_account !== undefined && { fallback_account }),
    };
  }

  function pathsOf({ event, parts, planItem }: Reading) {
    const account_id = names.account_ids.find((_, place) =>
      accountIn(parts.accounts[place]) !== undefined
    );
    return {
      ...names,
      account_id: account_id ?? names.account_ids[0],
      ...(!isSubscription(event) &&
        { subscription_id: names.payment_subscription_id }),
      ...definition.namesOf?.(event, planItem),
    };
  }

  return { ...definition, occurredAt, partsOf, read };
}

/** Makes a function that checks values, and keeps the faults that it finds by name. */
function validator() {
  const faults = new Map<string, Fault>();
  function valid<T>(name: string, value: unknown, check: Check<T>): T {
    const read = check(value);
    if (read instanceof Fault) faults.set(name, read);
    return read as T;
  }
  return { valid, faults };
}

const MAX_REPORTED_FAULTS = 5;

function describe(
  faults: ReadonlyMap<string, Fault>,
  paths: Record<string, unknown>,
): string {
  return Array.from(faults, ([name, { text }]) => {
    return `${paths[name]}`.replace(/\.(\d+)/, "[$1]") + text;
  }).slice(0, MAX_REPORTED_FAULTS).join("; ");
}
