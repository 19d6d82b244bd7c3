/** The interface of a format: how a provider signs, and how its events are read. */
import type * as z from "zod/mini";
import { DeliveryError } from "../errors.ts";
import type { Kind, WireEvent } from "./event.ts";
import type { NotificationKind, PlanItem } from "./event_settings.ts";
import { accountIn, identifierOrNull, isIdentifier } from "./fields.ts";

export type Format = Readonly<{
  scheme?: string;
  /** The signature header, if the scheme does not define one. */
  header?: string;

  /** The event types that take effect here. */
  kinds: Readonly<Record<string, Kind>>;
  /** The notifications that the types of kind `notice` create. */
  notices?: Readonly<Record<string, NotificationKind>>;
  /** The event type that names a customer's account, and how to read it. */
  checkout?: {
    type: string;
    accountOf(
      event: unknown,
    ): { account_id: string | null; isUnusable: boolean };
  };

  names: Names;
  /** Reads when an event occurred, as ISO 8601 text. */
  occurredAt: z.ZodMiniType<string | null | undefined>;
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
   * @param options.takesEffect Whether its kind takes effect. If not, it may hold anything.
   * @throws {DeliveryError} `event_invalid`; names the path of each bad field, never
   * its value.
   */
  read(
    event: unknown,
    options: {
      id?: string | undefined;
      planItem: PlanItem;
      takesEffect: boolean;
      parts?: Parts;
    },
  ): WireEvent;
}>;

/**
 * The paths of the parts in an event. The last two are for error messages; so is `id`
 * with {@linkcode Format.idOf}.
 */
type Names = Readonly<{
  type: string;
  id: string;
  occurred_at: string;
  subscription_id: string;
  /** In events that are not about a subscription; it may be missing. */
  payment_subscription_id: string;
  customer_id: string;
  account_ids: readonly [string, ...string[]];
  fallback_account?: string;
  data: string;
  plan_id: string;
  provider_status: string;
}>;

/** The parts of an event, not yet validated. */
export type Parts = Readonly<{
  type: unknown;
  id?: unknown;
  occurred_at: unknown;
  subscription_id: unknown;
  customer_id: unknown;
  /** From all places where the purchase itself may name its account. */
  accounts: readonly unknown[];
  fallback_account?: unknown;
  data: unknown;
  /** If it is not a boolean, the event belongs to both modes. */
  livemode?: unknown;
  /** Whether the event is from a connected account. */
  isConnected?: boolean;
  /** Whether the event names an object without its content. */
  isThin?: boolean;
}>;

/** Returns the kind of an event type; undefined if it has no effect here. */
export function kindOf(
  { kinds }: Pick<Format, "kinds">,
  type: unknown,
): Kind | undefined {
  return typeof type === "string" && Object.hasOwn(kinds, type)
    ? kinds[type]
    : undefined;
}

export function typesOf({ kinds }: Format): string[] {
  return Object.keys(kinds).filter((type) => kinds[type] !== "notice");
}

/** Describes a failed event. A part that is missing or cannot be stored is undefined. */
export function describeEvent(event: unknown, format: Format) {
  const parts = format.partsOf(event);
  const named = namedAccount(event, parts, format);
  const fallback_account = named === undefined ? fallbackOf(parts) : undefined;
  const occurredAt = format.occurredAt.safeParse(parts.occurred_at);

  const usable = (part: unknown) => identifierOrNull(part) ?? undefined;
  return {
    type: usable(parts.type),
    kind: kindOf(format, parts.type),
    subscription_id: usable(parts.subscription_id),
    customer_id: usable(parts.customer_id),
    account_id: named ?? fallback_account,
    fallback_account,
    occurred_at: occurredAt.data ?? undefined,
  };
}

/** Returns the account that an event names; a checkout may name it in other places. */
export function namedAccount(
  event: unknown,
  { type, accounts }: Parts,
  { checkout }: Format,
): string | undefined {
  const named = accounts.map(accountIn).find(isIdentifier);
  if (named !== undefined || type !== checkout?.type) return named;
  return checkout?.accountOf(event).account_id ?? undefined;
}

/** Returns the account that the provider keeps with the customer, if it is a valid id. */
export function fallbackOf({ fallback_account }: Parts): string | undefined {
  return identifierOrNull(accountIn(fallback_account)) ?? undefined;
}

/** Returns whether an event has no account id; a malformed one is not missing. */
export function lacksAccountId(event: unknown, format: Format): boolean {
  const parts = format.partsOf(event);
  return fallbackOf(parts) === undefined &&
    parts.accounts.every((account) => accountIn(account) === undefined);
}

/** Returns a failure; `account_unknown` then names the account's places in this format. */
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
    `${places} is missing, and the customer's account is unknown.`,
    { logFields, sqlState, cause: error },
  );
}
