/**
 * Lemon Squeezy. An event has neither an id nor a time of its own, so both come from
 * what it is about. Its ids are small numbers, which other providers may have as well.
 *
 * @see https://docs.lemonsqueezy.com/help/webhooks
 */
import { z } from "zod/mini";
import {
  count,
  identifier,
  instant,
  isRecord,
  maybe,
  member,
} from "../fields.ts";
import { amountOf, currency, snapshots, soleItem } from "./format.ts";

/** Who cancels has what was paid for: `subscription_expired` is the end. */
const STATUSES = new Map([["on_trial", "trialing"], ["cancelled", "active"]]);

/** A number, or digits, as an id that no other provider has. */
function prefixed(id: unknown): unknown {
  const text = digits(id);
  return typeof text === "string" && text.trim() !== "" ? `ls_${text}` : id;
}

/** Returns a whole number as text, and any other value as it is. */
function digits(id: unknown): unknown {
  return Number.isSafeInteger(id) ? `${id}` : id;
}

const ownId = z.lazy(() => z.pipe(z.transform(digits), identifier));

const report = z.lazy(() =>
  z.pipe(
    z.looseObject({
      status: identifier,
      variant_id: ownId,
      product_id: maybe(ownId),
      customer_id: maybe(ownId),
      first_subscription_item: maybe(z.looseObject({ quantity: maybe(count) })),
      renews_at: maybe(instant),
      ends_at: maybe(instant),
      trial_ends_at: maybe(instant),
      pause: maybe(z.looseObject({
        mode: maybe(identifier),
        resumes_at: maybe(instant),
      })),
      test_mode: maybe(z.boolean()),
    }),
    z.transform(({ status, pause, ends_at, ...data }) => {
      const quantity = data.first_subscription_item?.quantity ?? null;
      const isCanceled = status === "cancelled";
      const current_period_end = isCanceled ? ends_at : data.renews_at;
      return {
        plan_id: data.variant_id,
        current_period_end,
        provider_status: STATUSES.get(status) ?? status,
        customer_id: data.customer_id && `ls_${data.customer_id}`,
        quantity,
        cancel_at: isCanceled ? ends_at : null,
        trial_end: data.trial_ends_at,
        paused: pause?.mode ?? null,
        paused_until: pause?.resumes_at ?? null,
        livemode: data.test_mode === null ? null : !data.test_mode,
        ...soleItem({
          price_id: data.variant_id,
          product_id: data.product_id,
          quantity,
          current_period_end,
        }),
      };
    }),
  )
);

const payment = z.lazy(() =>
  z.pipe(
    z.looseObject({ total: z.unknown(), currency: currency() }),
    z.transform(({ total, currency }) => ({
      amount_due: amountOf(total),
      currency,
    })),
  )
);

function open(event: unknown) {
  const meta = member(event, "meta");
  const resource = member(event, "data");
  const data = member(resource, "attributes");
  const custom = member(meta, "custom_data");
  const testMode = member(data, "test_mode") ?? member(meta, "test_mode");
  return {
    type: member(meta, "event_name"),
    occurred_at: member(data, "updated_at"),
    subscription_id: prefixed(
      member(resource, "type") === "subscriptions"
        ? member(resource, "id")
        : member(data, "subscription_id"),
    ),
    customer_id: prefixed(member(data, "customer_id")),
    accounts: [member(custom, "account_id"), member(custom, "accountId")],
    livemode: typeof testMode === "boolean" ? !testMode : undefined,
    data,
  };
}

/**
 * Returns an id of what an event is and what is kept of it: two updates of one second are
 * two events. Not of the body, whose links are signed with a time.
 */
async function idOf(event: unknown, { isWhole }: { isWhole: boolean }) {
  const resource = member(event, "data");
  const { type, occurred_at, data } = open(event);
  if (!isRecord(data)) return undefined;
  const { urls: _, ...rest } = data;
  const kept = isWhole
    ? rest
    : report.safeParse(data).data ?? payment.safeParse(data).data;
  const parts = [
    ...[type, member(resource, "type"), member(resource, "id"), occurred_at],
    kept ?? rest,
  ];
  const text = new TextEncoder().encode(JSON.stringify(parts));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  return `ls_${
    Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")
  }`;
}

export const lemonSqueezy = snapshots({
  scheme: "hmac-sha256-hex",
  header: "x-signature",
  kinds: {
    subscription_created: "creation",
    // Lemon Squeezy sends it beside each of the others.
    subscription_updated: "update",
    subscription_expired: "deletion",
    subscription_payment_failed: "payment_failed",
  },
  names: {
    type: "meta.event_name",
    id: "data.attributes",
    occurred_at: "data.attributes.updated_at",
    subscription_id: "data.id",
    account_id: "meta.custom_data.account_id",
    data: "data.attributes",
  },
  idOf,
  open,
  report: () => report,
  payment: () => payment,
});
