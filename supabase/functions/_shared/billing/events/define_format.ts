/** Turns the events of every format into events on the wire. */
import { z } from "zod/mini";
import { DeliveryError } from "../errors.ts";
import type { Payment, Report, ReportedItem } from "./event.ts";
import type { PlanItem } from "./event_settings.ts";
import {
  accountIn,
  at,
  describeFault,
  identifier,
  identifierOrNull,
  instant,
  MISSING,
  readerOf,
  textOf,
} from "./fields.ts";
import { fallbackOf, type Format, kindOf, type Parts } from "./format.ts";

interface Definition extends Omit<Format, "read" | "occurredAt" | "partsOf"> {
  /** By default RFC 3339 or null, like `periodEnd`. */
  readonly occurredAt?: Format["occurredAt"];
  readonly periodEnd?: z.ZodMiniType<string | null>;
  /** The status of a creation; required by default. */
  readonly firstStatus?: z.ZodMiniType<string | null>;
  /** By default, returns whether the event's type begins with `subscription.`. */
  isSubscription?(event: unknown): boolean;
  /** Returns the parts that differ from the values at their paths. */
  partsOf?(event: unknown, stated: Parts): Partial<Parts>;
  /** It never throws. Optional columns default to null, and must be null if malformed. */
  report(data: unknown, planItem: PlanItem, event: unknown): StatedReport;
  /** Returns the values that an update replaced; null if the event does not state them. */
  previous?(event: unknown, planItem: PlanItem): Partial<Report> | null;
  /** Returns the details of a failed payment or a notice; undefined for no notification. */
  payment(data: unknown, type: string): Omit<Payment, "kind"> | undefined;
  /** Returns the paths that depend on the event. */
  namesOf?(event: unknown, planItem: PlanItem): Record<string, unknown>;
}

/** The columns that a change must state. */
type Essential = "plan_id" | "provider_status" | "current_period_end";

/** A report whose essential columns are not yet validated. */
type StatedReport =
  & Partial<Omit<Report, Essential>>
  & Record<Essential, unknown>;

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
  const { names, idOf, occurredAt = z.nullish(instant) } = definition;

  // Created when first used: at startup, it would slow a cold start.
  const schema = z.lazy(() => schemaOf({ ...definition, occurredAt }));

  // If updates can create the record, deletions can too.
  const reporting = new Set<unknown>(["creation", "opening_update", "update"]);
  const opens = Object.values(definition.kinds).includes("opening_update");
  if (opens) reporting.add("deletion");

  const isSubscription = definition.isSubscription ??
    ((event) => textOf(at(event, names.type)).startsWith("subscription."));

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
    { id, planItem, takesEffect, parts = partsOf(event) },
  ) => {
    const kind = takesEffect ? kindOf(format, parts.type) : "other";
    const report = reporting.has(kind)
      ? definition.report(parts.data, planItem, event)
      : undefined;

    const { place, ...account } = accountOf(parts);
    const stated = {
      ...report,
      ...parts,
      ...account,
      kind,
      id: id ?? parts.id,
    };
    const { data: valid, error } = schema.safeParse(stated, {
      error: describeFault,
    });
    if (valid === undefined) {
      const places = {
        ...names,
        account_id: names.account_ids[place] ?? names.account_ids[0],
        ...(!isSubscription(event) &&
          { subscription_id: names.payment_subscription_id }),
        ...definition.namesOf?.(event, planItem),
      };
      throw new DeliveryError("event_invalid", describe(error, places));
    }

    const customer_id = identifierOrNull(parts.customer_id);
    const common = {
      event_id: valid.id,
      type: valid.type,
      kind: valid.kind,
      occurred_at: valid.occurred_at ?? null,
      report: { customer_id },
    };
    if (valid.kind === "other") {
      // Customer and subscription show whether the event's account was erased.
      const subscription_id = identifierOrNull(parts.subscription_id);
      return { ...common, report: { customer_id, subscription_id } };
    }

    const { type, subscription_id } = valid;
    const about = { ...common, subscription_id };
    const optional = { ...report, customer_id };
    switch (valid.kind) {
      case "creation":
        return { ...about, ...changeOf(valid, optional) };

      case "opening_update":
      case "update": {
        const previous = definition.previous?.(event, planItem) ?? null;
        const mayRecover = valid.provider_status === "active" &&
          (previous === null || previous.provider_status !== undefined);
        return {
          ...about,
          ...changeOf(valid, optional),
          previous,
          ...(mayRecover && { payment: { kind: "recovered" } }),
        };
      }

      case "deletion": {
        // The rest may be malformed: it only matters if the deletion creates the record.
        const whole = report &&
          schema.safeParse({ ...stated, kind: "opening_update" }).data;
        return {
          ...about,
          ...(whole?.kind === "opening_update" && changeOf(whole, optional)),
          payment: { kind: "ended" },
        };
      }

      case "payment_failed":
      case "notice": {
        // A payment for something other than a subscription.
        if (subscription_id === null) return { ...about, kind: "other" };

        const payment = definition.payment(parts.data, type);
        const kind = definition.notices?.[type] ?? "payment_failed";
        return { ...about, ...(payment && { payment: { ...payment, kind } }) };
      }
    }
  };

  const format: Format = { ...definition, occurredAt, partsOf, read };
  return format;
}

/**
 * Returns the account in the first place that has one, valid or not; if none has, the
 * account that the provider keeps with the customer.
 */
function accountOf(parts: Parts) {
  const accounts = parts.accounts.map(accountIn);
  const place = accounts.findIndex((account) => account !== undefined);
  return {
    place,
    account_id: accounts[place],
    fallback_account: place < 0 ? fallbackOf(parts) : undefined,
  };
}

/** A validated change; kind `update` has no account. */
type Change = Pick<Report, Essential> & {
  readonly account_id?: string | undefined;
  readonly fallback_account?: string | undefined;
};

/** Returns the values that a change sets: its report and its account. */
function changeOf(
  change: Change,
  optional: Partial<Omit<Report, Essential>>,
) {
  const { plan_id, current_period_end, provider_status } = change;
  const { account_id = null, fallback_account } = change;
  return {
    report: {
      ...NO_REPORT,
      ...optional,
      plan_id,
      current_period_end,
      provider_status,
    },
    ...("account_id" in change && { account_id }),
    ...(fallback_account !== undefined && { fallback_account }),
  };
}

/** Returns the schema of the fields that each kind requires. */
function schemaOf(
  { occurredAt, periodEnd = maybe(instant), firstStatus = identifier }:
    & Definition
    & Pick<Format, "occurredAt">,
) {
  const event = { id: identifier, type: identifier, occurred_at: occurredAt };
  const withData = { ...event, data: z.looseObject({}) };
  const ofSubscription = { ...withData, subscription_id: identifier };
  const change = {
    ...ofSubscription,
    plan_id: identifier,
    current_period_end: periodEnd,
    provider_status: identifier,
  };
  const account = z.optional(identifier);
  const opening = { ...change, account_id: account, fallback_account: account };

  return z.discriminatedUnion("kind", [
    z.object({
      ...opening,
      kind: z.literal("creation"),
      provider_status: firstStatus,
    }),
    z.object({ ...opening, kind: z.literal("opening_update") }),
    z.object({ ...change, kind: z.literal("update") }),
    z.object({ ...ofSubscription, kind: z.literal("deletion") }),
    z.object({
      ...withData,
      kind: z.enum(["payment_failed", "notice"]),
      subscription_id: z.nullable(identifier),
    }),
    z.object({ ...event, kind: z.literal("other") }),
  ]);
}

/** Returns a schema that reads a missing or malformed value as null. */
export function maybe<T extends z.core.$ZodType>(schema: T) {
  return z.catch(z.nullable(schema), null);
}

const MAX_REPORTED_FAULTS = 5;

function describe(error: z.core.$ZodError, names: Record<string, unknown>) {
  return error.issues
    .slice(0, MAX_REPORTED_FAULTS)
    .map(({ path: [part], message }) => {
      const name = `${names[String(part)]}`.replace(/\.(\d+)/, "[$1]");
      return `${name}${message === MISSING ? "" : ":"} ${message}`;
    })
    .join("; ");
}
