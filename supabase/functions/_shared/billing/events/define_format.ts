/** Turns the events of every format into events on the wire. */
import * as z from "zod/mini";
import { DeliveryError } from "../errors.ts";
import type { Kind, Payment, Report, ReportedItem } from "./event.ts";
import type { PlanItem } from "./event_settings.ts";
import {
  accountIn,
  at,
  describeFault,
  identifier,
  identifierOrNull,
  instant,
  MISSING,
  type Reader,
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
  /** By default, whether the event's type begins with `subscription.`. */
  isSubscription?(event: unknown): boolean;
  /** Returns the parts that differ from the values at their paths. */
  partsOf?(event: unknown, stated: Parts): Partial<Parts>;
  /** It never throws. Optional columns default to null, and must be null if malformed. */
  report(data: Reader, planItem: PlanItem, event: unknown): StatedReport;
  /** Returns `WireEvent.previous`. It breaks ties, and shows that a subscription recovered. */
  previous?(event: unknown, planItem: PlanItem): Partial<Report> | null;
  /** Returns the details of a failed payment or a notice; undefined for no notification. */
  payment(data: Reader, type: string): Omit<Payment, "kind"> | undefined;
  /** Returns the paths that depend on the event. */
  namesOf?(event: unknown, planItem: PlanItem): Record<string, unknown>;
}

/** The columns that a change must state. */
type Essential = "plan_id" | "provider_status" | "current_period_end";

type OptionalColumns = Partial<Omit<Report, Essential>>;

/** A report whose essential columns are not yet validated. */
type StatedReport = OptionalColumns & Record<Essential, unknown>;

type ValidKind = Kind | "other";

type Change = Extract<
  z.output<ReturnType<typeof schemaOf>>,
  { plan_id: string }
>;

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
  const { kinds, names, idOf, occurredAt = z.nullish(instant) } = definition;

  // Those that report the record. If updates can create it, deletions can too.
  const reporting = ["creation", "update", "opening_update"];
  if (Object.values(kinds).includes("opening_update")) {
    reporting.push("deletion");
  }

  const schemas: { [kind in ValidKind]?: ReturnType<typeof schemaOf> } = {};

  function schemaFor(kind: ValidKind) {
    return schemas[kind] ??= schemaOf(kind, { ...definition, occurredAt });
  }

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
    const kind = (takesEffect && kindOf(definition, parts.type)) || "other";
    const report = reporting.includes(kind)
      ? definition.report(readerOf(parts.data), planItem, event)
      : undefined;

    // The first place that names an account counts, even if it is not valid.
    const account_id = parts.accounts.map(accountIn)
      .find((account) => account !== undefined);
    const fallback_account = account_id === undefined
      ? fallbackOf(parts)
      : undefined;

    const stated = {
      ...report,
      ...parts,
      account_id,
      fallback_account,
      kind,
      id: id ?? parts.id,
    };
    const { data: valid, error } = schemaFor(kind)
      .safeParse(stated, { error: describeFault });
    if (error !== undefined) {
      const paths = pathsOf(event, parts, planItem);
      throw new DeliveryError("event_invalid", describe(error, paths));
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

    const wire = { ...common, subscription_id: valid.subscription_id };
    const optional = { ...report, customer_id };
    switch (valid.kind) {
      case "creation":
        return { ...wire, ...changeOf(valid, optional) };

      case "opening_update":
      case "update": {
        const previous = definition.previous?.(event, planItem) ?? null;
        const mayRecover = valid.provider_status === "active" &&
          (previous === null || previous.provider_status !== undefined);
        return {
          ...wire,
          ...changeOf(valid, optional),
          previous,
          ...(mayRecover && { payment: { kind: "recovered" } }),
        };
      }

      case "deletion": {
        // It can create the record if it states all that an update must.
        const update = report && schemaFor("opening_update")
          .safeParse({ ...stated, kind: "opening_update" }).data;
        return {
          ...wire,
          ...(update?.kind === "opening_update" && changeOf(update, optional)),
          payment: { kind: "ended" },
        };
      }

      case "payment_failed":
      case "notice": {
        if (wire.subscription_id === null) return { ...wire, kind: "other" };

        const payment = definition.payment(readerOf(parts.data), valid.type);
        const kind = definition.notices?.[valid.type] ?? "payment_failed";
        return { ...wire, ...(payment && { payment: { ...payment, kind } }) };
      }
    }
  };

  function pathsOf(event: unknown, { accounts }: Parts, planItem: PlanItem) {
    const account_id = names.account_ids.find((_, place) =>
      accountIn(accounts[place]) !== undefined
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

/** Returns what a change sets: its report, and its account if it may create the record. */
function changeOf(change: Change, optional: OptionalColumns) {
  const { plan_id, current_period_end, provider_status } = change;
  const report = {
    ...NO_REPORT,
    ...optional,
    plan_id,
    current_period_end,
    provider_status,
  };
  if (change.kind === "update") return { report };

  const { account_id = null, fallback_account } = change;
  return {
    report,
    account_id,
    ...(fallback_account !== undefined && { fallback_account }),
  };
}

function schemaOf(
  kind: ValidKind,
  { occurredAt, periodEnd = maybe(instant), firstStatus = identifier }:
    & Definition
    & Pick<Format, "occurredAt">,
) {
  const event = { id: identifier, type: identifier, occurred_at: occurredAt };
  if (kind === "other") return z.object({ ...event, kind: z.literal(kind) });

  const withData = { ...event, data: z.looseObject({}) };
  if (kind === "payment_failed" || kind === "notice") {
    return z.object({
      ...withData,
      kind: z.literal(kind),
      subscription_id: z.nullable(identifier),
    });
  }

  const ofSubscription = { ...withData, subscription_id: identifier };
  if (kind === "deletion") {
    return z.object({ ...ofSubscription, kind: z.literal(kind) });
  }

  const change = {
    ...ofSubscription,
    plan_id: identifier,
    current_period_end: periodEnd,
    provider_status: kind === "creation" ? firstStatus : identifier,
  };
  if (kind === "update") return z.object({ ...change, kind: z.literal(kind) });

  const account = z.optional(identifier);
  return z.object({
    ...change,
    kind: z.literal(kind),
    account_id: account,
    fallback_account: account,
  });
}

/** Returns a schema that reads a missing or malformed value as null. */
export function maybe<T>(schema: z.ZodMiniType<T>) {
  // Not `z.catch`, which would add all of zod's helpers to the built file.
  return z.transform((value: unknown) => schema.safeParse(value).data ?? null);
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
