/** How the events of every format become events on the wire. */
import { z } from "zod/mini";
import type { PlanItem } from "../config.ts";
import { DeliveryError } from "../errors.ts";
import {
  describeFault,
  identifier,
  identifierOrNull,
  instant,
  isAbsent,
  MISSING,
} from "../fields.ts";
import {
  type Format,
  type HandledEvent,
  kindOf,
  type Payment,
  type Report,
  type ReportedItem,
} from "./format.ts";

const MAX_REPORTED_FAULTS = 5;

type Required = "plan_id" | "provider_status" | "current_period_end";

/** A report as its provider states it: what must be there as it stands. */
type Stated = Partial<Omit<Report, Required>> & Record<Required, unknown>;

/** What a provider's file says of its events. */
interface Definition extends Omit<Format, "read" | "occurredAt"> {
  /** By default in RFC 3339, as the end of a period is; either may be null. */
  readonly occurredAt?: Format["occurredAt"];
  readonly periodEnd?: z.ZodMiniType<string | null>;
  /** What is not in it is null. It never throws; what may be bad is null. */
  report(data: unknown, planItem: PlanItem, event: unknown): Stated;
  /** What an update replaced; by default no event says it. */
  previous?(event: unknown, planItem: PlanItem): Partial<Report> | null;
  /** What a failed payment or a notice says, if an account may be told of it. */
  payment(data: unknown, type: string): Omit<Payment, "kind"> | undefined;
  /** The names that depend on the event. */
  namesOf?(event: unknown, planItem: PlanItem): Record<string, string>;
}

const NO_REPORT: Omit<Report, Required> = {
  ...{ customer_id: null, quantity: null, cancel_at: null, trial_end: null },
  ...{ paused: null, paused_until: null, livemode: null },
  ...{ items: [], items_complete: true },
};

/** Returns an item, with null for what is not stated. */
export function itemOf(stated: Partial<ReportedItem>): ReportedItem {
  return {
    ...{ item_id: null, price_id: null, product_id: null, quantity: null },
    ...{ usage_type: null, current_period_end: null },
    ...stated,
  };
}

/** Returns the format of a provider, as the pipeline uses it. */
export function defineFormat(provider: Definition): Format {
  const { partsOf, names, occurredAt = z.nullish(instant) } = provider;
  // Made when first needed: at startup, it would make a cold start longer.
  const schema = z.lazy(() => schemaOf({ ...provider, occurredAt }));
  const format: Format = {
    ...provider,
    occurredAt,
    read(event, { id, planItem, isHandled, parts = partsOf(event) }) {
      const kind = isHandled ? kindOf(format, parts.type) : "other";
      const stated = isChange(kind)
        ? provider.report(parts.data, planItem, event)
        : undefined;
      const { data: read, error } = schema.safeParse({
        ...{ ...stated, ...parts, kind, id: id ?? parts.id },
        account_id: parts.accounts.find((account) => !isAbsent(account)),
      }, { error: describeFault });
      if (read === undefined) {
        const all = { ...names, ...provider.namesOf?.(event, planItem) };
        throw new DeliveryError("event_invalid", describe(error, all));
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
          const { subscription_id, plan_id, provider_status } = read;
          const { current_period_end } = read;
          const required = { plan_id, provider_status, current_period_end };
          const previous = provider.previous?.(event, planItem) ?? null;
          const mayRecover = provider_status === "active" &&
            (previous === null || previous.provider_status !== undefined);
          return {
            ...{ ...common, subscription_id },
            report: { ...NO_REPORT, ...stated, customer_id, ...required },
            ...("account_id" in read &&
              { account_id: read.account_id ?? null }),
            ...(read.kind !== "creation" && {
              previous,
              ...(mayRecover && { payment: { kind: "recovered" } }),
            }),
          };
        }
        case "deletion": {
          const { subscription_id } = read;
          return { ...common, subscription_id, payment: { kind: "ended" } };
        }
        case "payment_failed":
        case "notice": {
          const subscription_id = read.subscription_id ?? null;
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

function isChange(kind: HandledEvent["kind"] | undefined): boolean {
  return kind === "creation" || kind === "opening_update" || kind === "update";
}

/** What each kind must have. The rest is read as it comes. */
function schemaOf(
  { occurredAt, periodEnd = maybe(instant) }:
    & Pick<
      Definition,
      "occurredAt" | "periodEnd"
    >
    & { occurredAt: Format["occurredAt"] },
) {
  const any = {
    id: identifier,
    type: identifier,
    occurred_at: occurredAt,
  };
  const about = { ...any, data: z.looseObject({}) };
  const one = { ...about, subscription_id: identifier };
  const change = {
    ...{ ...one, plan_id: identifier, current_period_end: periodEnd },
    provider_status: identifier,
  };
  const account_id = z.nullish(identifier);
  return z.discriminatedUnion("kind", [
    z.object({
      ...{ ...change, kind: z.literal("creation"), account_id },
      provider_status: maybe(identifier),
    }),
    z.object({ ...change, kind: z.literal("opening_update"), account_id }),
    z.object({ ...change, kind: z.literal("update") }),
    z.object({ ...one, kind: z.literal("deletion") }),
    z.object({
      ...{ ...about, kind: z.literal("payment_failed") },
      subscription_id: z.nullish(identifier),
    }),
    z.object({
      ...{ ...about, kind: z.literal("notice") },
      subscription_id: z.nullable(identifier),
    }),
    z.object({ ...any, kind: z.literal("other") }),
  ]);
}

/** A field that may be missing or malformed: then it is null. */
function maybe<T extends z.core.$ZodType>(schema: T) {
  return z.catch(z.nullable(schema), null);
}

function describe(
  error: z.core.$ZodError,
  names: Readonly<Record<string, string>>,
): string {
  return error.issues
    .slice(0, MAX_REPORTED_FAULTS)
    .map(({ path: [part], message }) => {
      const separator = message === MISSING ? "" : ":";
      return `${names[String(part)]}${separator} ${message}`;
    })
    .join("; ");
}
