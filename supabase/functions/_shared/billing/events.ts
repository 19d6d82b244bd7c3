/**
 * The handled event types, and the fields that are read from each.
 *
 * A field that nothing reads may hold anything. Unknown fields are dropped.
 *
 * @module
 */
import { z } from "zod/mini";
import { identifier, member, unixSeconds } from "./fields.ts";
import { currentPeriodEnd, invoiceSubscription } from "./moved_fields.ts";
import { paymentDetails } from "./payment_details.ts";
import {
  customerId,
  firstItem,
  identifierOrNull,
  livemode,
  providerReport,
  replacedReport,
  secondsOrNull,
} from "./provider_report.ts";

/** A field that another file reads. */
const passed = z.optional(z.unknown());

function subscription() {
  return z.object({
    id: identifier,
    items: z.object({
      data: z.tuple([
        z.object({
          price: z.object({ id: identifier }),
          current_period_end: passed,
          quantity: passed,
        }),
      ], z.unknown()),
    }),
    current_period_end: passed,
    status: passed,
    customer: passed,
    cancel_at: passed,
    cancel_at_period_end: passed,
    trial_end: passed,
    pause_collection: passed,
    livemode: passed,
  });
}

function envelope() {
  return z.object({ id: identifier, created: z.optional(unixSeconds) });
}

function subscriptionEnvelope() {
  return z.extend(envelope(), { livemode: passed });
}

function subscriptionCreated() {
  return z.pipe(
    z.extend(subscriptionEnvelope(), {
      type: z.literal("customer.subscription.created"),
      data: z.object({
        object: z.extend(subscription(), {
          // If it is missing, the database asks account_of_customer.
          metadata: z.nullish(z.object({ accountId: z.nullish(identifier) })),
        }),
      }),
    }),
    z.transform((event, context) => ({
      ...envelopeFields(event),
      type: event.type,
      subscription_id: event.data.object.id,
      account_id: event.data.object.metadata?.accountId ?? null,
      plan_id: event.data.object.items.data[0].price.id,
      current_period_end: toDateTime(
        currentPeriodEnd(event.data.object, context),
      ),
      ...reported(event),
    })),
  );
}

function subscriptionUpdated() {
  return z.pipe(
    z.extend(subscriptionEnvelope(), {
      type: z.literal("customer.subscription.updated"),
      data: z.object({
        object: z.extend(subscription(), { status: identifier }),
        previous_attributes: passed,
      }),
    }),
    z.transform((event, context) => ({
      ...envelopeFields(event),
      type: event.type,
      subscription_id: event.data.object.id,
      status: event.data.object.status,
      plan_id: event.data.object.items.data[0].price.id,
      current_period_end: toDateTime(
        currentPeriodEnd(event.data.object, context),
      ),
      ...reported(event),
      previous: previousValues(
        event.data.object,
        event.data.previous_attributes,
      ),
    })),
  );
}

function subscriptionDeleted() {
  return z.pipe(
    z.extend(envelope(), {
      type: z.literal("customer.subscription.deleted"),
      data: z.object({
        object: z.object({ id: identifier, customer: passed }),
      }),
    }),
    z.transform((event) => ({
      ...envelopeFields(event),
      type: event.type,
      subscription_id: event.data.object.id,
      customer_id: customerId(event.data.object),
    })),
  );
}

function invoicePaymentFailed() {
  return z.pipe(
    z.extend(envelope(), {
      type: z.literal("invoice.payment_failed"),
      data: z.object({
        object: z.object({
          id: z.catch(z.optional(identifier), undefined),
          subscription: passed,
          parent: passed,
          customer: passed,
          hosted_invoice_url: passed,
          amount_due: passed,
          currency: passed,
          attempt_count: passed,
          next_payment_attempt: passed,
        }),
      }),
    }),
    z.transform((event, context) => ({
      ...envelopeFields(event),
      type: event.type,
      subscription_id: invoiceSubscription(event.data.object, context),
      invoice_id: event.data.object.id,
      customer_id: customerId(event.data.object),
      ...paymentDetails(event.data.object),
    })),
  );
}

/**
 * The handled events, in the form that `apply_billing_events` takes. The schemas
 * are made when the first of these events arrives: with all of them, a cold start
 * takes longer (docs/decisions.md).
 */
export const handledEvent = z.lazy(() =>
  z.discriminatedUnion("type", [
    subscriptionCreated(),
    subscriptionUpdated(),
    subscriptionDeleted(),
    invoicePaymentFailed(),
  ])
);

/** A validated event of a handled type. */
export type HandledEvent = z.output<typeof handledEvent>;

/** The schemas do not say it, because they are not made yet. */
const HANDLED: Readonly<Record<HandledEvent["type"], true>> = {
  "customer.subscription.created": true,
  "customer.subscription.updated": true,
  "customer.subscription.deleted": true,
  "invoice.payment_failed": true,
};

/** The event types that have an effect here. */
export const HANDLED_TYPES = Object.keys(
  HANDLED,
) as readonly HandledEvent["type"][];

/** Returns whether events of this type have an effect here. */
export function isHandledType(type: unknown): type is HandledEvent["type"] {
  return HANDLED_TYPES.some((handled) => handled === type);
}

function envelopeFields(event: { id: string; created?: number | undefined }) {
  return {
    event_id: event.id,
    created: event.created === undefined ? null : toDateTime(event.created),
  };
}

/**
 * Returns Unix seconds as ISO 8601 text, for Postgres. NaN stands for a fault
 * that is already reported; that event is never used.
 */
function toDateTime(seconds: number): string {
  return Number.isNaN(seconds) ? "" : new Date(seconds * 1000).toISOString();
}

/** What the provider reports, in the form that the database takes. */
function reported(event: { data: { object: object }; livemode?: unknown }) {
  const { object } = event.data;
  const { cancel_at, trial_end, ...report } = providerReport(object);
  return {
    ...report,
    cancel_at: cancel_at === null ? null : toDateTime(cancel_at),
    trial_end: trial_end === null ? null : toDateTime(trial_end),
    livemode: livemode(event, object),
  };
}

/**
 * Returns the values that an update replaced, with times in Unix seconds; null
 * if it does not say. They only break ties, so a bad value is not an error.
 */
function previousValues(object: object, attributes: unknown) {
  if (typeof attributes !== "object" || attributes === null) return null;
  const item = firstItem(attributes);
  return {
    status: identifierOrNull(member(attributes, "status")) ?? undefined,
    plan_id: identifierOrNull(member(member(item, "price"), "id")) ?? undefined,
    current_period_end:
      secondsOrNull(member(attributes, "current_period_end")) ??
        secondsOrNull(member(item, "current_period_end")) ?? undefined,
    ...replacedReport(object, attributes),
  };
}
