/** How the events of every format become events on the wire. */
import { z } from "zod/mini";
import type { PlanItem } from "../settings/deployment.ts";
import { DeliveryError } from "../errors.ts";
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
import {
  fallbackOf,
  type Format,
  kindOf,
  type Parts,
  type Payment,
  type Report,
  type ReportedItem,
} from "./format.ts";

const MAX_REPORTED_FAULTS = 5;

const CHANGES: unknown[] = ["creation", "opening_update", "update"];

type Required = "plan_id" | "provider_status" | "current_period_end";

/** A report as its provider states it: what must be there as it stands. */
type Stated = Partial<Omit<Report, Required>> & Record<Required, unknown>;

/** What a provider's file says of its events. */
interface Definition extends Omit<Format, "read" | "occurredAt" | "partsOf"> {
  /** By default in RFC 3339, as the end of a period is; either may be null. */
  readonly occurredAt?: Format["occurredAt"];
  readonly periodEnd?: z.ZodMiniType<string | null>;
  /** The status of a creation; by default it must be there. */
  readonly firstStatus?: z.ZodMiniType<string | null>;
  /** Whether it is about a subscription; by default if its type begins so. */
  isSubscription?(event: unknown): boolean;
  /** Returns the parts that are not as they stand at their names. */
  partsOf?(event: unknown, stated: Parts): Partial<Parts>;
  /** What is not in it is null. It never throws; what may be bad is null. */
  report(data: unknown, planItem: PlanItem, event: unknown): Stated;
  /** What an update replaced; by default no event says it. */
  previous?(event: unknown, planItem: PlanItem): Partial<Report> | null;
  /** What a failed payment or a notice says, if an account may be told of it. */
  payment(data: unknown, type: string): Omit<Payment, "kind"> | undefined;
  /** The names that depend on the event. */
  namesOf?(event: unknown, planItem: PlanItem): Record<string, unknown>;
}

const NO_REPORT: Omit<Report, Required> = {
  ...{ customer_id: null, quantity: null, cancel_at: null, trial_end: null },
  ...{ paused: null, paused_until: null, livemode: null },
  ...{ items: [], items_complete: true },
};

export function itemOf(stated: Partial<ReportedItem>): ReportedItem {
  return {
    ...{ item_id: null, price_id: null, product_id: null, quantity: null },
    ...{ usage_type: null, current_period_end: null },
    ...stated,
  };
}

export function defineFormat(provider: Definition): Format {
  const { names, idOf, occurredAt = z.nullish(instant) } = provider;
  // Made when first needed: at startup, it would make a cold start longer.
  const schema = z.lazy(() => schemaOf({ ...provider, occurredAt }));
  // If updates make the record, deletions do too.
  const opens = Object.values(provider.kinds).includes("opening_update");
  const isSubscription = provider.isSubscription ??
    ((event) => textOf(at(event, names.type)).startsWith("subscription."));

  function partsOf(event: unknown): Parts {
    const { get } = readerOf(event);
    const stated = {
      type: get(names.type),
      id: idOf ? undefined : get(names.id),
      occurred_at: get(names.occurred_at),
      // Null if it is about none.
      subscription_id: isSubscription(event)
        ? get(names.subscription_id) ?? undefined
        : get(names.payment_subscription_id) ?? null,
      customer_id: get(names.customer_id),
      accounts: names.account_ids.map(get),
      fallback_account: names.fallback_account && get(names.fallback_account),
      data: get(names.data),
    };
    return { ...stated, ...provider.partsOf?.(event, stated) };
  }

  const format: Format = {
    ...provider,
    ...{ occurredAt, partsOf },
    read(event, { id, planItem, isHandled, parts = partsOf(event) }) {
      const kind = isHandled ? kindOf(format, parts.type) : "other";
      const stated = CHANGES.includes(kind) || opens && kind === "deletion"
        ? provider.report(parts.data, planItem, event)
        : undefined;
      const accounts = parts.accounts.map(accountIn);
      const account = accounts.findIndex((one) => one !== undefined);
      const given = {
        ...stated,
        ...parts,
        kind,
        id: id ?? parts.id,
        account_id: accounts[account],
        fallback_account: account < 0 ? fallbackOf(parts) : undefined,
      };
      const { data: read, error } = schema.safeParse(given, {
        error: describeFault,
      });
      if (read === undefined) {
        const places = {
          ...names,
          account_id: names.account_ids[account] ?? names.account_ids[0],
          ...(!isSubscription(event) &&
            { subscription_id: names.payment_subscription_id }),
          ...provider.namesOf?.(event, planItem),
        };
        throw new DeliveryError("event_invalid", describe(error, places));
      }
      const customer_id = identifierOrNull(parts.customer_id);
      const common = {
        event_id: read.id,
        type: read.type,
        kind: read.kind,
        occurred_at: read.occurred_at ?? null,
        report: { customer_id },
      };
      switch (read.kind) {
        case "creation":
        case "opening_update":
        case "update": {
          const { subscription_id, provider_status } = read;
          const previous = provider.previous?.(event, planItem) ?? null;
          const mayRecover = provider_status === "active" &&
            (previous === null || previous.provider_status !== undefined);
          return {
            ...common,
            subscription_id,
            ...changeOf(read, { ...stated, customer_id }),
            ...(read.kind !== "creation" && {
              previous,
              ...(mayRecover && { payment: { kind: "recovered" } }),
            }),
          };
        }
        case "deletion": {
          const { subscription_id } = read;
          // Only a record that it makes needs the rest.
          const whole = stated &&
            schema.safeParse({ ...given, kind: "opening_update" }).data;
          return {
            ...common,
            subscription_id,
            ...(whole?.kind === "opening_update" &&
              changeOf(whole, { ...stated, customer_id })),
            payment: { kind: "ended" },
          };
        }
        case "payment_failed":
        case "notice": {
          const { subscription_id } = read;
          // Of no subscription.
          if (subscription_id === null) {
            return { ...common, kind: "other", subscription_id };
          }
          const told = format.notices?.[read.type] ?? "payment_failed";
          const payment = provider.payment(parts.data, read.type);
          return {
            ...{ ...common, subscription_id },
            ...(payment && { payment: { ...payment, kind: told } }),
          };
        }
        case "other": {
          const subscription_id = identifierOrNull(parts.subscription_id);
          // Whose it is, in case they were erased.
          return { ...common, report: { customer_id, subscription_id } };
        }
      }
    },
  };
  return format;
}

/** A change that was read; an update of Stripe's names no account. */
type Change = Pick<Report, Required> & {
  readonly account_id?: string | undefined;
  readonly fallback_account?: string | undefined;
};

/** Returns what a change sets, and whose it says the subscription is. */
function changeOf(
  read: Change,
  stated: Partial<Omit<Report, Required>>,
) {
  const { plan_id, current_period_end, provider_status } = read;
  const { account_id = null, fallback_account } = read;
  return {
    report: {
      ...NO_REPORT,
      ...stated,
      plan_id,
      current_period_end,
      provider_status,
    },
    ...("account_id" in read && { account_id }),
    ...(fallback_account !== undefined && { fallback_account }),
  };
}

/** What each kind must have. The rest is read as it comes. */
function schemaOf(
  { occurredAt, periodEnd = maybe(instant), firstStatus = identifier }:
    & Definition
    & Pick<Format, "occurredAt">,
) {
  const any = { id: identifier, type: identifier, occurred_at: occurredAt };
  const about = { ...any, data: z.looseObject({}) };
  const one = { ...about, subscription_id: identifier };
  const change = {
    ...{ ...one, plan_id: identifier, current_period_end: periodEnd },
    provider_status: identifier,
  };
  const account = z.optional(identifier);
  const opening = { ...change, account_id: account, fallback_account: account };
  return z.discriminatedUnion("kind", [
    z.object({
      ...{ ...opening, kind: z.literal("creation") },
      provider_status: firstStatus,
    }),
    z.object({ ...opening, kind: z.literal("opening_update") }),
    z.object({ ...change, kind: z.literal("update") }),
    z.object({ ...one, kind: z.literal("deletion") }),
    z.object({
      ...{ ...about, kind: z.enum(["payment_failed", "notice"]) },
      subscription_id: z.nullable(identifier),
    }),
    z.object({ ...any, kind: z.literal("other") }),
  ]);
}

/** A field that may be missing or malformed: then it is null. */
export function maybe<T extends z.core.$ZodType>(schema: T) {
  return z.catch(z.nullable(schema), null);
}

function describe(error: z.core.$ZodError, names: Record<string, unknown>) {
  return error.issues
    .slice(0, MAX_REPORTED_FAULTS)
    .map(({ path: [part], message }) => {
      const name = `${names[String(part)]}`.replace(/\.(\d+)/, "[$1]");
      return `${name}${message === MISSING ? "" : ":"} ${message}`;
    })
    .join("; ");
}
