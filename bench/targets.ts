/**
 * What is measured end to end, and how each wants its requests.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { LOCAL_SIGNING_SECRETS } from "../scripts/common/environment.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { handledEvent } from "../supabase/functions/_shared/billing/formats/stripe.ts";
import { useLeastSql } from "./least_sql.ts";
import { BARE_CALL, GATEWAY, LEAST, LEAST_SQL, RECEIVER } from "./names.ts";
import { type RequestShape, stripeHeaders } from "./requests.ts";
import type { EventIds } from "./stripe_ids.ts";

/** One thing to send load to. */
export interface Target {
  readonly name: string;
  readonly port: number;
  readonly shape: RequestShape;
  /** More events per second than it can ever apply. */
  readonly most: number;
  /** Where its records are; undefined if it applies nothing. */
  readonly records: Records | undefined;
  /** By default as Stripe makes them. */
  readonly ids?: EventIds;
  /** Changes the database, until it is disposed of. */
  readonly change?: () => Promise<AsyncDisposable>;
}

/** How to see which events were applied. */
export interface Records {
  readonly databaseUrl: string;
  /** Selects the `id` of each subscription, and as `at` its newest event's time. */
  readonly query: string;
}

/** The secret that provider A and the peers sign with. */
export const SECRET = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;

/** This receiver, at its own port. */
export function receiverTarget(stack: Stack): Target {
  return {
    name: RECEIVER,
    port: stack.ports.webhook,
    shape: {
      path: "/billing-webhook",
      headers: stripeHeaders({
        header: "provider-a-signature",
        secret: SECRET,
      }),
      body: (event) => JSON.stringify(event),
    },
    most: 12_000,
    records: {
      databaseUrl: stack.dbUrl,
      query:
        "select id, billing.time_of(changed_as_of) as at from billing.subscriptions",
    },
  };
}

/**
 * The same events as ones that the receiver does not handle: it verifies and
 * parses them, and calls no database.
 */
export function ignoredTarget(stack: Stack): Target {
  const target = receiverTarget(stack);
  return {
    ...target,
    name: `${RECEIVER}, events that it ignores`,
    shape: {
      ...target.shape,
      body: (event) =>
        JSON.stringify({
          ...event,
          type: "customer.subscription.trial_will_end",
        }),
    },
    records: undefined,
  };
}

/** This receiver with SQL that has no rules: what they cost at most. */
export function leastSqlTarget(stack: Stack): Target {
  return {
    ...receiverTarget(stack),
    name: LEAST_SQL,
    change: () => useLeastSql(stack.dbUrl),
  };
}

/** The same events, as bare calls of the same SQL function, one per call. */
export function postgrestTarget(stack: Stack): Target {
  return {
    ...receiverTarget(stack),
    name: BARE_CALL,
    port: stack.ports.postgrest,
    shape: {
      path: "/rpc/billing_apply_events",
      headers: () => ({ authorization: `Bearer ${stack.keys.serviceRole}` }),
      body: (event) => JSON.stringify({ events: [wireEvent(event)] }),
    },
    most: 5_000,
  };
}

/** The same through the local gateway, which every call of a function passes. */
export function gatewayTarget(stack: Stack): Target {
  const target = postgrestTarget(stack);
  return {
    ...target,
    name: GATEWAY,
    port: stack.ports.api,
    shape: {
      ...target.shape,
      path: `/rest/v1${target.shape.path}`,
      headers: () => ({ apikey: stack.keys.secret }),
    },
  };
}

/** The same through a function that verifies it and passes it on. */
export function leastTarget(stack: Stack, port: number): Target {
  const target = postgrestTarget(stack);
  return {
    ...target,
    name: LEAST,
    port,
    shape: {
      ...target.shape,
      path: "/",
      headers: (body) => ({
        signature: createHmac("sha256", SECRET).update(body).digest("base64"),
      }),
    },
  };
}

/** A server that Stripe's events are sent to as they are. */
export function peerTarget(
  port: number,
  { name, records }: Pick<Target, "name" | "records">,
): Target {
  return {
    name,
    port,
    shape: {
      path: "/",
      headers: stripeHeaders({ header: "stripe-signature", secret: SECRET }),
      body: (event) => JSON.stringify(event),
    },
    most: 5_000,
    records,
  };
}

/**
 * Returns what the receiver makes of an event on its way to the database.
 *
 * @param place Its place in the call; the events may be given to `map`.
 */
export function wireEvent(event: object, place = 0): object {
  return { place: place + 1, ...handledEvent.parse(event), provider: "a" };
}
