/**
 * Fields that providers moved between API versions. They are read where the
 * specification puts them, or else where current Stripe versions put them. Only
 * the place that is used must be valid.
 *
 * @module
 */
import type { z } from "zod/mini";
import { describeFault, identifier, member, unixSeconds } from "./fields.ts";

const OBJECT = ["data", "object"] as const;

/**
 * Returns the end of the current period in Unix seconds: that of the
 * subscription, or else of its first item (Stripe since 2025-03-31.basil).
 * Faults are added to `context`.
 */
export function currentPeriodEnd(
  object: {
    current_period_end?: unknown;
    items: { data: [{ current_period_end?: unknown }, ...unknown[]] };
  },
  context: z.core.ParsePayload,
): number {
  const inItem = object.items.data[0].current_period_end;
  const seconds = isAbsent(object.current_period_end) && !isAbsent(inItem)
    ? valueAt(inItem, unixSeconds, {
      context,
      path: [...OBJECT, "items", "data", 0, "current_period_end"],
    })
    : valueAt(object.current_period_end, unixSeconds, {
      context,
      path: [...OBJECT, "current_period_end"],
    });
  return seconds ?? NaN;
}

/**
 * Returns the id of the subscription that an invoice belongs to; null for a
 * one-off invoice. It is in `subscription`, or else below `parent` (Stripe since
 * 2025-03-31.basil), as an id or as an expanded object. Faults are added to
 * `context`.
 */
export function invoiceSubscription(
  object: { subscription?: unknown; parent?: unknown },
  context: z.core.ParsePayload,
): string | null {
  const below = ["parent", "subscription_details", "subscription"];
  const moved = isAbsent(object.subscription);
  const found = moved
    ? below.reduce<unknown>(member, object)
    : object.subscription;
  if (isAbsent(found)) return null;
  const path = [...OBJECT, ...(moved ? below : ["subscription"])];
  const isExpanded = typeof found === "object";
  const id = isExpanded ? member(found, "id") : found;
  if (isExpanded) path.push("id");
  return valueAt(id, identifier, { context, path }) ?? null;
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function valueAt<T>(
  value: unknown,
  schema: z.ZodMiniType<T>,
  { context, path }: {
    context: z.core.ParsePayload;
    path: (string | number)[];
  },
): T | undefined {
  const result = schema.safeParse(value, { error: describeFault });
  for (const { message } of result.error?.issues ?? []) {
    context.issues.push({ code: "custom", message, path, input: value });
  }
  return result.data;
}
