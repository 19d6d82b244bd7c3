/**
 * The handled event types, and the fields that are read from each.
 *
 * A field that nothing reads may hold anything. Unknown fields are dropped.
 *
 * @module
 */
import { z } from "zod";
import { identifier, unixSeconds } from "./fields.ts";
import { currentPeriodEnd, invoiceSubscription } from "./moved_fields.ts";

const price = z.object({ id: identifier });

const subscription = z.object({
  id: identifier,
  items: z.object({
    data: z.tuple(
      [z.object({ price, current_period_end: z.unknown().optional() })],
      z.unknown(),
    ),
  }),
  current_period_end: z.unknown().optional(),
});

const envelope = z.object({ id: identifier, created: unixSeconds.optional() });

/**
 * The values that an update replaced. They only break ties, so a bad value is
 * not an error.
 */
const previousAttributes = z.object({
  status: identifier.optional().catch(undefined),
  current_period_end: unixSeconds.optional().catch(undefined),
  items: z.object({
    data: z.tuple([
      z.object({
        price: price.optional().catch(undefined),
        current_period_end: unixSeconds.optional().catch(undefined),
      }),
    ], z.unknown()),
  }).optional().catch(undefined),
}).optional().catch(undefined);

const subscriptionCreated = envelope.extend({
  type: z.literal("customer.subscription.created"),
  data: z.object({
    object: subscription.extend({
      metadata: z.object({ accountId: identifier }),
    }),
  }),
}).transform((event, context) => ({
  ...common(event),
  type: event.type,
  subscription_id: event.data.object.id,
  account_id: event.data.object.metadata.accountId,
  plan_id: event.data.object.items.data[0].price.id,
  current_period_end: toDateTime(
    currentPeriodEnd(event.data.object, context),
  ),
}));

const subscriptionUpdated = envelope.extend({
  type: z.literal("customer.subscription.updated"),
  data: z.object({
    object: subscription.extend({ status: identifier }),
    previous_attributes: previousAttributes,
  }),
}).transform((event, context) => ({
  ...common(event),
  type: event.type,
  subscription_id: event.data.object.id,
  status: event.data.object.status,
  plan_id: event.data.object.items.data[0].price.id,
  current_period_end: toDateTime(
    currentPeriodEnd(event.data.object, context),
  ),
  previous: previousValues(event.data.previous_attributes),
}));

const subscriptionDeleted = envelope.extend({
  type: z.literal("customer.subscription.deleted"),
  data: z.object({ object: z.object({ id: identifier }) }),
}).transform((event) => ({
  ...common(event),
  type: event.type,
  subscription_id: event.data.object.id,
}));

const invoicePaymentFailed = envelope.extend({
  type: z.literal("invoice.payment_failed"),
  data: z.object({
    object: z.object({
      id: identifier.optional().catch(undefined),
      subscription: z.unknown().optional(),
      parent: z.unknown().optional(),
    }),
  }),
}).transform((event, context) => ({
  ...common(event),
  type: event.type,
  subscription_id: invoiceSubscription(event.data.object, context),
  invoice_id: event.data.object.id,
}));

/** The handled events, in the form that `apply_billing_events` takes. */
export const handledEvent = z.discriminatedUnion("type", [
  subscriptionCreated,
  subscriptionUpdated,
  subscriptionDeleted,
  invoicePaymentFailed,
]);

/** A validated event of a handled type. */
export type HandledEvent = z.output<typeof handledEvent>;

/** The event types that have an effect here. */
export const HANDLED_TYPES: readonly HandledEvent["type"][] = handledEvent
  .options.map((option) => option.in.shape.type.value);

/** Returns whether events of this type have an effect here. */
export function isHandledType(type: unknown): type is HandledEvent["type"] {
  return HANDLED_TYPES.some((handled) => handled === type);
}

function common(event: { id: string; created?: number | undefined }) {
  return {
    event_id: event.id,
    created: event.created === undefined ? null : toDateTime(event.created),
  };
}

/**
 * Converts as the specification says: seconds times 1000, as milliseconds. NaN
 * stands for a fault that is already reported; that event is never used.
 */
function toDateTime(seconds: number): string {
  return Number.isNaN(seconds) ? "" : new Date(seconds * 1000).toISOString();
}

function previousValues(attributes: z.output<typeof previousAttributes>) {
  const item = attributes?.items?.data[0];
  return {
    status: attributes?.status,
    plan_id: item?.price?.id,
    current_period_end: attributes?.current_period_end ??
      item?.current_period_end,
  };
}
