/**
 * What the pipeline knows of a provider: how it signs, and how its events are read.
 * A format is one file beside this one, and a line in `formats.ts`.
 */
import type { z } from "zod/mini";
import type { PlanItem } from "../settings/deployment.ts";
import { DeliveryError } from "../errors.ts";
import { accountIn, identifierOrNull, isIdentifier } from "./fields.ts";

/** What an event does to its subscription. The ordering rule in SQL reads only this. */
export type Kind =
  | "creation"
  | "update"
  /** An update that makes the record if there is none. */
  | "opening_update"
  | "deletion"
  | "payment_failed"
  | "notice";

/** An event in the form that `billing_apply_events` takes. */
export type HandledEvent = {
  readonly event_id: string;
  readonly type: string;
  readonly kind: Kind | "checkout" | "other";
  /** In ISO 8601; null if the event does not say. */
  readonly occurred_at: string | null;
  /** None if the event has no effect on a subscription. */
  readonly subscription_id?: string | null;
  /** Of what makes a record. If it is null, the database asks `account_of_customer`. */
  readonly account_id?: string | null;
  /** What the provider keeps with the customer: it counts if that knows none. */
  readonly fallback_account?: string | null;
  /** Of an event that has no `account_id`: whose it is, in case they were erased. */
  readonly named_account?: string;
  /** The columns that the event sets, or would set if it made the record. */
  readonly report: Partial<Report> & { subscription_id?: string | null };
  /** Of an update: what it replaced; null if it does not say. */
  readonly previous?: Partial<Report> | null;
  readonly payment?: Payment;
};

/** The columns that belong to the newest creation or update; times in ISO 8601. */
export type Report = {
  readonly plan_id: string | null;
  readonly current_period_end: string | null;
  readonly provider_status: string | null;
  readonly customer_id: string | null;
  readonly quantity: number | null;
  readonly cancel_at: string | null;
  readonly trial_end: string | null;
  readonly paused: string | null;
  readonly paused_until: string | null;
  readonly livemode: boolean | null;
  readonly items: ReportedItem[];
  readonly items_complete: boolean;
};

export type ReportedItem = {
  readonly item_id: string | null;
  readonly price_id: string | null;
  readonly product_id: string | null;
  readonly quantity: number | null;
  readonly usage_type: string | null;
  readonly current_period_end: string | null;
};

/** What a notification says, by column of `billing.notifications`. */
export type Payment = {
  readonly kind: string;
  readonly trial_end?: string | null;
  readonly invoice_id?: string | null;
  readonly hosted_invoice_url?: string | null;
  readonly amount_due?: number | null;
  readonly currency?: string | null;
  readonly attempt_count?: number | null;
  readonly next_payment_attempt?: string | null;
};

/** The parts of an event as they stand, whatever it contains. */
export interface Parts {
  readonly type: unknown;
  /** None if the body has none: see {@linkcode Format.idOf}. */
  readonly id?: unknown;
  readonly occurred_at: unknown;
  readonly subscription_id: unknown;
  readonly customer_id: unknown;
  /** Wherever the purchase itself may name its account. */
  readonly accounts: readonly unknown[];
  readonly fallback_account?: unknown;
  readonly data: unknown;
  /** Anything but a boolean belongs to either mode. */
  readonly livemode?: unknown;
  /** Whether it is of an account that is connected to yours. */
  readonly isConnected?: boolean;
  /** Whether it names an object without its content. */
  readonly isThin?: boolean;
}

/** Where a provider's events have the parts; the last two are for error messages. */
interface Names {
  readonly type: string;
  readonly id: string;
  readonly occurred_at: string;
  readonly subscription_id: string;
  /** Of an event that is about something else; there it may be missing. */
  readonly payment_subscription_id: string;
  readonly customer_id: string;
  readonly account_ids: readonly [string, ...string[]];
  readonly fallback_account?: string;
  readonly data: string;
  readonly plan_id: string;
  readonly provider_status: string;
}

/** How a provider signs, and what its events mean. */
export interface Format {
  /** Its signature scheme, if it has one of its own. */
  readonly scheme?: string;
  /** The header of the signature, if the scheme names none. */
  readonly header?: string;
  /** Its types that have an effect here. */
  readonly kinds: Readonly<Record<string, Kind>>;
  /** What those of kind `notice` tell the account. */
  readonly notices?: Readonly<Record<string, string>>;
  /** The type that says whose a customer is, and what it says. */
  readonly checkout?: {
    readonly type: string;
    accountOf(
      event: unknown,
    ): { account_id: string | null; isUnusable: boolean };
  };
  readonly names: Names;
  /** Reads when an event occurred, as ISO 8601 text. */
  readonly occurredAt: z.ZodMiniType<string | null | undefined>;
  /** Returns the parts of an event. It never throws. */
  partsOf(event: unknown): Parts;
  /**
   * Returns the id of an event whose body has none.
   *
   * @param options.isWhole Whether a handler reads all of the event.
   */
  idOf?(
    event: unknown,
    options: { deliveryId: string | undefined; isWhole: boolean },
  ): Promise<string | undefined> | string | undefined;
  /**
   * Validates an event.
   *
   * @param options.id See {@linkcode idOf}.
   * @param options.isHandled Whether it is of one of `kinds`: else only a handler of
   * the app reads it, and it may hold anything.
   * @throws {DeliveryError} `event_invalid`; names the path of each bad field, never
   * its value.
   */
  read(
    event: unknown,
    options: {
      id?: string | undefined;
      planItem: PlanItem;
      isHandled: boolean;
      parts?: Parts;
    },
  ): HandledEvent;
}

/**
 * Describes an event that failed, for triage: what can be read of it, each part by
 * itself. A part is undefined if it is missing or cannot be stored.
 */
export function describeEvent(event: unknown, format: Format) {
  const parts = format.partsOf(event);
  const { type } = parts;
  const usable = (part: unknown) => identifierOrNull(part) ?? undefined;
  const named = namedAccount(event, parts, format);
  const fallback_account = named === undefined ? fallbackOf(parts) : undefined;
  return {
    type: usable(type),
    kind: kindOf(format, type),
    subscription_id: usable(parts.subscription_id),
    customer_id: usable(parts.customer_id),
    account_id: named ?? fallback_account,
    fallback_account,
    occurred_at: format.occurredAt.safeParse(parts.occurred_at).data ??
      undefined,
  };
}

/** Returns the account that an event names, wherever its provider puts one. */
export function namedAccount(
  event: unknown,
  { type, accounts }: Parts,
  { checkout }: Format,
): string | undefined {
  const named = accounts.map(accountIn).find(isIdentifier);
  if (named !== undefined || type !== checkout?.type) return named;
  return checkout?.accountOf(event).account_id ?? undefined;
}

export type EventDescription = ReturnType<typeof describeEvent>;

/** Returns what events of this type do; undefined if they have no effect here. */
export function kindOf(format: Format, type: unknown): Kind | undefined {
  return typeof type === "string" && Object.hasOwn(format.kinds, type)
    ? format.kinds[type]
    : undefined;
}

export function typesOf({ kinds }: Format): string[] {
  return Object.keys(kinds).filter((type) => kinds[type] !== "notice");
}

/**
 * Returns whether an event names no account in any place where its provider puts one. A
 * malformed account id is not a missing one.
 */
export function lacksAccountId(event: unknown, format: Format): boolean {
  const parts = format.partsOf(event);
  return fallbackOf(parts) === undefined &&
    parts.accounts.every((one) => accountIn(one) === undefined);
}

/** Returns the account that the provider keeps with the customer, if that is usable. */
export function fallbackOf({ fallback_account }: Parts): string | undefined {
  return identifierOrNull(accountIn(fallback_account)) ?? undefined;
}

/** Returns a failure that names where this format has an account, if that is missing. */
export function withPlaces(
  error: DeliveryError,
  { names: { account_ids, fallback_account } }: Format,
): DeliveryError {
  const { code, logFields, sqlState } = error;
  if (code !== "account_unknown") return error;
  const places = [...account_ids, fallback_account].filter(Boolean)
    .join(" or ");
  return new DeliveryError(
    code,
    `${places} is missing, and account_of_customer knows no account of the customer.`,
    { logFields, sqlState, cause: error },
  );
}
