/**
 * What is measured end to end, and how each wants its requests.
 *
 * @module
 */
import { LOCAL_SIGNING_SECRETS } from "../scripts/common/environment.ts";
import type { Stack } from "../scripts/local_stack/start_stack.ts";
import { handledEvent } from "../supabase/functions/_shared/billing/events.ts";
import { type RequestShape, stripeHeaders } from "./requests.ts";

/** One thing to send load to. */
export interface Target {
  readonly name: string;
  readonly port: number;
  readonly shape: RequestShape;
  /** Whether it may get a request twice. */
  readonly repeats?: boolean;
}

/** The secret that provider A and the peer sign with. */
export const SECRET = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;

/** This receiver, at its own port. */
export function receiverTarget(stack: Stack): Target {
  return {
    name: "this receiver",
    port: stack.ports.webhook,
    shape: {
      path: "/billing-webhook",
      headers: stripeHeaders({
        header: "provider-a-signature",
        secret: SECRET,
      }),
      body: (event) => JSON.stringify(event),
    },
  };
}

/** The same events, as bare calls of the same SQL function, one a call. */
export function postgrestTarget(stack: Stack): Target {
  return {
    name: "bare PostgREST call",
    port: stack.ports.postgrest,
    shape: {
      path: "/rpc/apply_billing_events",
      headers: () => ({ authorization: `Bearer ${stack.keys.serviceRole}` }),
      body: (event) => JSON.stringify({ events: [wireEvent(event)] }),
    },
  };
}

/** The same through the local gateway, which every call of a function passes. */
export function gatewayTarget(stack: Stack): Target {
  const { shape } = postgrestTarget(stack);
  return {
    name: "the same through the gateway",
    port: stack.ports.api,
    shape: {
      ...shape,
      path: `/rest/v1${shape.path}`,
      headers: () => ({ apikey: stack.keys.secret }),
    },
  };
}

/** `@supabase/stripe-sync-engine`, served on Deno by its own example. */
export function peerTarget(port: number): Target {
  return {
    name: "@supabase/stripe-sync-engine",
    port,
    shape: {
      path: "/",
      headers: stripeHeaders({ header: "stripe-signature", secret: SECRET }),
      body: (event) => JSON.stringify(event),
    },
  };
}

/** A server that answers at once: what the generator itself can do. */
export function bareTarget(port: number): Target {
  return { ...peerTarget(port), name: "bare server", repeats: true };
}

/** What the receiver makes of an event on its way to the database. */
export function wireEvent(event: object): object {
  return { ...handledEvent.parse(event), provider: "a" };
}
