/**
 * Stripe's events: the types that are handled, and what is read from each.
 *
 * A field that nothing reads may hold anything. Stripe moved some fields between
 * API versions: they are read where the specification puts them, or else where
 * current versions put them. Only the place that is used must be valid.
 */
import { z } from "zod/mini";
import type { PlanItem } from "../config.ts";
import {
  dateTime,
  describeFault,
  identifier,
  identifierOrNull,
  isAbsent,
  isIdentifier,
  isRecord,
  isUnixSeconds,
  MAX_INTEGER,
  member,
  timeOrNull,
  unixSeconds,
  wholeNumberOrNull,
} from "../fields.ts";
import type { Format, HandledEvent, Parts, Payment, Report } from "./format.ts";

const KINDS = {
  "customer.subscription.created": "creation",
  "customer.subscription.updated": "update",
  "customer.subscription.paused": "update",
  "customer.subscription.resumed": "update",
  "customer.subscription.deleted": "deletion",
  "invoice.payment_failed": "payment_failed",
  "customer.subscription.trial_will_end": "notice",
  "invoice.payment_action_required": "notice",
} as const;

/** What the types that have no other effect tell the account. */
const NOTICES = {
  "customer.subscription.trial_will_end": "trial_ending",
  "invoice.payment_action_required": "action_required",
} as const;

type HandledType = keyof typeof KINDS;

const CHECKOUT = "checkout.session.completed";

/**
 * Returns what a subscription, as Stripe sends it, reports: the columns of
 * `billing.subscriptions` that belong to the newest creation or update. A further
 * one is added here, and to the table.
 *
 * A value that is missing or malformed is null and never fails the event, except
 * for those that the schemas below require. So these are plain functions and not
 * schemas, whose faults nobody would read.
 */
function report(
  event: unknown,
  subscription: unknown,
  planItem: PlanItem,
): Report {
  const item = planOf(subscription, planItem);
  const pause = member(subscription, "pause_collection");
  return {
    plan_id: identifierOrNull(member(member(item, "price"), "id")),
    current_period_end: timeOrNull(periodEnd(subscription, planItem).value),
    provider_status: identifierOrNull(member(subscription, "status")),
    customer_id: customerId(subscription),
    quantity: wholeNumberOrNull(member(item, "quantity"), MAX_INTEGER),
    cancel_at: cancelAt(subscription),
    trial_end: timeOrNull(member(subscription, "trial_end")),
    // A pause without a usable behavior is null like any malformed value, so it
    // shuts nobody out: of the behaviors, only `void` means that nothing is paid
    // for, and nothing says that it is `void`.
    paused: identifierOrNull(member(pause, "behavior")),
    paused_until: timeOrNull(member(pause, "resumes_at")),
    livemode: livemode(event, subscription),
    items: itemsOf(subscription).map((item) => reportItem(item, subscription)),
    items_complete: member(member(subscription, "items"), "has_more") !== true,
  };
}

function reportItem(item: unknown, subscription: unknown) {
  const price = member(item, "price");
  const product = member(price, "product");
  return {
    item_id: identifierOrNull(member(item, "id")),
    price_id: identifierOrNull(member(price, "id")),
    product_id: identifierOrNull(product) ??
      identifierOrNull(member(product, "id")),
    quantity: wholeNumberOrNull(member(item, "quantity"), MAX_INTEGER),
    usage_type: usageType(item),
    // Older versions have it in the subscription only.
    current_period_end: timeOrNull(
      member(item, "current_period_end") ??
        member(subscription, "current_period_end"),
    ),
  };
}

function usageType(item: unknown): string | null {
  const recurring = member(member(item, "price"), "recurring");
  return identifierOrNull(member(recurring, "usage_type"));
}

/** Returns the item that is the plan: the first, or the first licensed one. */
function planOf(subscription: unknown, planItem: PlanItem): unknown {
  const items = itemsOf(subscription);
  const licensed = planItem === "licensed"
    ? items.find((item) => usageType(item) === "licensed")
    : undefined;
  return licensed ?? items[0];
}

/**
 * Returns what an update replaced: each value that the subscription reported
 * before it, if it differs. A value that was null counts. Null if the update does
 * not say. These values only break ties, so a bad one is not an error.
 *
 * @param attributes The update's `previous_attributes`. They hold the old items
 * whole, but of other objects only the changed members.
 */
function replaced(
  event: unknown,
  subscription: object,
  attributes: unknown,
  planItem: PlanItem,
): Partial<Report> | null {
  if (typeof attributes !== "object" || attributes === null) return null;
  const held = member(subscription, "pause_collection");
  const released = member(attributes, "pause_collection");
  const after = report(event, subscription, planItem);
  const before = report(event, {
    ...subscription,
    ...attributes,
    ...(isRecord(released) &&
      { pause_collection: { ...Object(held), ...released } }),
  }, planItem);
  return Object.fromEntries(
    Object.entries(before).filter(([name, value]) =>
      JSON.stringify(value) !== JSON.stringify(after[name as keyof Report])
    ),
  );
}

/**
 * Returns what an invoice states about its payment: what an account needs to know
 * to act on it. A field that is missing or odd is null, because the notification
 * matters more than its details.
 *
 * If the next attempt is missing or odd, the number of attempts is null too:
 * attempts without a next one mean that there is none, and nobody knows that.
 */
function payment(invoice: unknown, kind = "payment_failed"): Payment {
  const next = member(invoice, "next_payment_attempt");
  return {
    kind,
    invoice_id: identifierOrNull(member(invoice, "id")),
    hosted_invoice_url: httpsUrlOrNull(member(invoice, "hosted_invoice_url")),
    // In the smallest unit of the currency, such as cents.
    amount_due: wholeNumberOrNull(
      member(invoice, "amount_due"),
      Number.MAX_SAFE_INTEGER,
    ),
    currency: currencyOrNull(member(invoice, "currency")),
    attempt_count: next === null || isUnixSeconds(next)
      ? wholeNumberOrNull(member(invoice, "attempt_count"), MAX_INTEGER)
      : null,
    next_payment_attempt: timeOrNull(next),
  };
}

const OBJECT = ["data", "object"] as const;

function schemaOf<
  Type extends HandledType,
  Shape extends z.core.$ZodLooseShape,
>(
  type: Type,
  object: z.ZodMiniObject<Shape, z.core.$loose>,
) {
  return z.looseObject({
    id: identifier,
    created: z.optional(unixSeconds),
    type: z.literal(type),
    data: z.looseObject({ object }),
  });
}

/** What each type must have. The rest is read as it comes. */
function schemas() {
  const price = z.looseObject({ id: identifier });
  const items = z.looseObject({
    data: z.tuple([z.looseObject({ price })], z.unknown()),
  });
  const metadata = z.nullish(z.object({ accountId: z.nullish(identifier) }));
  const changed = z.looseObject({ id: identifier, items, status: identifier });
  return z.discriminatedUnion("type", [
    schemaOf(
      "customer.subscription.created",
      z.looseObject({ id: identifier, items, metadata }),
    ),
    schemaOf("customer.subscription.updated", changed),
    schemaOf("customer.subscription.paused", changed),
    schemaOf("customer.subscription.resumed", changed),
    schemaOf(
      "customer.subscription.deleted",
      z.looseObject({ id: identifier }),
    ),
    schemaOf("invoice.payment_failed", z.looseObject({})),
    schemaOf(
      "customer.subscription.trial_will_end",
      z.looseObject({ id: identifier }),
    ),
    schemaOf("invoice.payment_action_required", z.looseObject({})),
  ]);
}

function toHandledEvent(
  event: z.output<ReturnType<typeof schemas>>,
  context: z.core.ParsePayload,
  planItem: PlanItem,
): HandledEvent {
  const { id, type, created, data } = event;
  const common = {
    event_id: id,
    type,
    kind: KINDS[type],
    occurred_at: created === undefined ? null : dateTime(created),
    report: { customer_id: customerId(data.object) },
  };
  switch (event.type) {
    case "customer.subscription.created": {
      const { object } = event.data;
      valueAt(periodEnd(object, planItem), unixSeconds, context);
      return {
        ...common,
        subscription_id: object.id,
        account_id: object.metadata?.accountId ?? null,
        report: report(event, object, planItem),
      };
    }
    case "customer.subscription.updated":
    case "customer.subscription.paused":
    case "customer.subscription.resumed": {
      const { object } = event.data;
      valueAt(periodEnd(object, planItem), unixSeconds, context);
      const attributes = member(data, "previous_attributes");
      const previous = replaced(event, object, attributes, planItem);
      const mayRecover = object.status === "active" &&
        (previous === null || previous.provider_status !== undefined);
      return {
        ...common,
        subscription_id: object.id,
        report: report(event, object, planItem),
        previous,
        ...(mayRecover && { payment: { kind: "recovered" } }),
      };
    }
    case "customer.subscription.deleted":
      return {
        ...common,
        subscription_id: event.data.object.id,
        payment: { kind: "ended" },
      };
    case "customer.subscription.trial_will_end":
      return {
        ...common,
        subscription_id: event.data.object.id,
        payment: {
          kind: NOTICES[event.type],
          trial_end: timeOrNull(member(data.object, "trial_end")),
        },
      };
    case "invoice.payment_failed":
    case "invoice.payment_action_required": {
      const found = invoiceSubscription(data.object);
      if (found === undefined) {
        return { ...common, kind: "other", subscription_id: null };
      }
      return {
        ...common,
        subscription_id: valueAt(found, identifier, context) ?? null,
        // The customer is looking at the form of the first payment.
        ...(member(data.object, "billing_reason") !== "subscription_create" && {
          payment: payment(
            data.object,
            event.type === "invoice.payment_failed"
              ? undefined
              : NOTICES[event.type],
          ),
        }),
      };
    }
  }
}

/**
 * The schema of the handled events, by which item is the plan. It is made when the first
 * of them arrives: at startup, it would make a cold start longer (docs/decisions.md).
 */
const handledEvents = {
  first: schemaFor("first"),
  licensed: schemaFor("licensed"),
};

function schemaFor(planItem: PlanItem) {
  return z.lazy(() =>
    z.pipe(
      schemas(),
      z.transform((event, context) => toHandledEvent(event, context, planItem)),
    )
  );
}

/**
 * The schema of an event that only a handler of the app reads, and of a checkout. The
 * rest of it may hold anything.
 */
const furtherEvent = z.lazy(() =>
  z.pipe(
    z.looseObject({
      id: identifier,
      created: z.optional(unixSeconds),
      type: identifier,
    }),
    z.transform((event): HandledEvent => ({
      event_id: event.id,
      type: event.type,
      kind: "other",
      occurred_at: event.created === undefined ? null : dateTime(event.created),
      // Whose it is, in case they were erased.
      report: {
        customer_id: customerId(objectOf(event)),
        subscription_id: identifierOrNull(subscriptionOf(event)),
      },
    })),
  )
);

/**
 * Returns the account that a checkout names, or null; and whether what it names could
 * be none: apps use the second field for other things.
 */
function checkoutAccount(event: unknown) {
  const session = objectOf(event);
  const named = [
    member(member(session, "metadata"), "accountId"),
    member(session, "client_reference_id"),
  ].filter((value) => !isAbsent(value));
  const account_id = named.find(isIdentifier) ?? null;
  return { account_id, isUnusable: account_id === null && named.length > 0 };
}

/** Checks a value that may be at several places; adds faults to `context`. */
function valueAt<T>(
  { value, path }: Found,
  schema: z.ZodMiniType<T>,
  context: z.core.ParsePayload,
): T | undefined {
  const result = schema.safeParse(value, { error: describeFault });
  for (const { message } of result.error?.issues ?? []) {
    context.issues.push({ code: "custom", message, path, input: value });
  }
  return result.data;
}

/**
 * Returns the parts of an event as they stand.
 *
 * @see https://docs.stripe.com/connect/webhooks for events of connected accounts, and
 * https://docs.stripe.com/event-destinations for thin ones
 */
function partsOf(event: unknown): Parts {
  const object = objectOf(event);
  const type = member(event, "type");
  return {
    type,
    id: member(event, "id"),
    occurred_at: timeOrNull(member(event, "created")),
    subscription_id: subscriptionOf(event),
    customer_id: customerId(object),
    // What cannot be read may name one.
    accounts: isRecord(object)
      ? metadataOf(object).map((metadata) =>
        isRecord(metadata) || isAbsent(metadata)
          ? member(metadata, "accountId")
          : [metadata]
      )
      : [[]],
    livemode: member(event, "livemode"),
    isConnected: !isAbsent(member(event, "account")),
    isThin: /^v[12]\./.test(`${type}`) ||
      member(event, "object") === "v2.core.event",
  };
}

/** Returns the subscription that an event is about, as far as it can be read. */
function subscriptionOf(event: unknown): unknown {
  const object = objectOf(event);
  return `${member(event, "type")}`.startsWith("customer.subscription.")
    ? member(object, "id")
    : invoiceSubscription(object)?.value;
}

/** Returns the metadata at each place where a subscription's may be. */
function metadataOf(object: unknown): unknown[] {
  return [
    object,
    member(object, "subscription"),
    member(object, "subscription_details"),
    member(member(object, "parent"), "subscription_details"),
    ...linesOf(object),
  ].map((holder) => member(holder, "metadata"));
}

function objectOf(event: unknown): unknown {
  return member(member(event, "data"), "object");
}

/** A value, and the place in the event where it was looked for. */
interface Found {
  readonly value: unknown;
  readonly path: (string | number)[];
}

/**
 * Finds the end of the current period: that of the subscription, or else the
 * earliest of its items (Stripe since 2025-03-31.basil), which is what older
 * versions report for items of several lengths. A bad end of an item is found
 * first, since nobody knows whether it is the earliest.
 *
 * @param planItem If it is `licensed`, then that of a licensed item alone.
 */
function periodEnd(
  subscription: unknown,
  planItem: PlanItem = "first",
): Found {
  const own = member(subscription, "current_period_end");
  const plan = planItem === "licensed" && planOf(subscription, planItem);
  const ends = itemsOf(subscription)
    .map((item, index) => ({
      item,
      value: member(item, "current_period_end"),
      path: [...OBJECT, "items", "data", index, "current_period_end"],
    }))
    .filter(({ item, value }) =>
      !isAbsent(value) &&
      (!plan || usageType(plan) !== "licensed" || item === plan)
    );
  const found = ends.find(({ value }) => !isUnixSeconds(value)) ??
    ends.sort((one, other) => Number(one.value) - Number(other.value))[0];
  return isAbsent(own) && found !== undefined
    ? found
    : { value: own, path: [...OBJECT, "current_period_end"] };
}

/** Where the subscription of an invoice may be, in the order of preference. */
const OF_INVOICE = [
  ["subscription"],
  // Stripe since 2025-03-31.basil.
  ["parent", "subscription_details", "subscription"],
];

/** The same of a line, for an invoice whose parent is of another kind. */
const OF_LINE = [
  ["subscription"],
  ["parent", "subscription_item_details", "subscription"],
  ["parent", "invoice_item_details", "subscription"],
];

/**
 * Finds the id of the subscription that an invoice belongs to, as an id or as an
 * expanded object; undefined if neither the invoice nor a line names one.
 */
function invoiceSubscription(invoice: unknown): Found | undefined {
  const line = linesOf(invoice).findIndex((line) =>
    OF_LINE.some((place) => !isAbsent(place.reduce(member, line)))
  );
  const inLine = OF_LINE.map((place) => ["lines", "data", line, ...place]);
  for (const place of [...OF_INVOICE, ...inLine]) {
    const value = place.reduce<unknown>(member, invoice);
    if (isAbsent(value)) continue;
    const path = [...OBJECT, ...place];
    return typeof value === "object"
      ? { value: member(value, "id"), path: [...path, "id"] }
      : { value, path };
  }
  return undefined;
}

/** Its own, or else the end of the period. */
function cancelAt(subscription: unknown): string | null {
  const own = timeOrNull(member(subscription, "cancel_at"));
  return own === null && member(subscription, "cancel_at_period_end") === true
    ? timeOrNull(periodEnd(subscription).value)
    : own;
}

/** Returns the customer of an object, expanded or not; or the object, if it is one. */
function customerId(object: unknown): string | null {
  const customer = member(object, "object") === "customer"
    ? object
    : member(object, "customer");
  return identifierOrNull(customer) ?? identifierOrNull(member(customer, "id"));
}

/** Returns whether an event is of live mode: by the event, or else by its object. */
function livemode(event: unknown, object: unknown): boolean | null {
  const found = [event, object].map((holder) => member(holder, "livemode"))
    .find((value) => typeof value === "boolean");
  return found ?? null;
}

function itemsOf(subscription: unknown): readonly unknown[] {
  return listOf(member(subscription, "items"));
}

function linesOf(invoice: unknown): readonly unknown[] {
  return listOf(member(invoice, "lines"));
}

/** Returns the elements of a list of Stripe's. */
function listOf(list: unknown): readonly unknown[] {
  const data = member(list, "data");
  return Array.isArray(data) ? data : [];
}

export const stripe: Format = {
  kinds: KINDS,
  notices: NOTICES,
  checkout: { type: CHECKOUT, accountOf: checkoutAccount },
  names: { type: "type", occurred_at: "created" },
  partsOf,
  read(event, { planItem, isHandled }) {
    const schema = isHandled ? handledEvents[planItem] : furtherEvent;
    return schema.safeParse(event, { error: describeFault });
  },
};

const MAX_URL_LENGTH = 2_048;

/**
 * Returns a link that may stand in a mail: https, without a user name or password
 * that would pass for a host, and without characters that are not seen.
 */
function httpsUrlOrNull(value: unknown): string | null {
  if (typeof value !== "string" || value.length > MAX_URL_LENGTH) return null;
  if (/[\s\p{C}]/u.test(value) || !URL.canParse(value)) return null;
  const { protocol, username, password } = new URL(value);
  return protocol === "https:" && username === "" && password === ""
    ? value
    : null;
}

function currencyOrNull(value: unknown): string | null {
  return typeof value === "string" && /^[a-z]{3}$/i.test(value)
    ? value.toLowerCase()
    : null;
}
