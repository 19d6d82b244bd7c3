/**
 * The database of the catalogue's rows, receivers with an endpoint for each signature
 * scheme, events with a mark, and signatures in parts, made by Node's HMAC.
 */
import { createHash } from "node:crypto";
import type { Environment } from "../../scripts/common/environment.ts";
import {
  invoiceEvent,
  type InvoiceEventOptions,
} from "../../scripts/events/templates.ts";
import {
  subscriptionEvent,
  type SubscriptionEventOptions,
  type SubscriptionEventType,
} from "../../scripts/events/subscription_event.ts";
import { startApiProxy } from "../support/api_proxy.ts";
import { edited } from "../support/edited.ts";
import {
  gatewayTo,
  type ServedFunction,
  startReceiver,
} from "../support/functions.ts";
import { macOf, type TestedScheme } from "../support/sign.ts";
import { connect } from "../support/tables.ts";

/** Secrets that are easy to find in a log that must not hold them. */
export const SECRETS = {
  "stripe": "whsec_CATALOGUEsecretOfA",
  "hmac-sha256-hex": "CATALOGUEsecretOfB",
  "standard-webhooks": "whsec_Q0FUQUxPR1VFc2VjcmV0T2ZTdGFuZGFyZA==",
} as const;

const HEADERS = {
  "stripe": "provider-a-signature",
  "hmac-sha256-hex": "provider-b-signature",
  "standard-webhooks": "webhook-signature",
} as const;

export interface Endpoint {
  readonly scheme: TestedScheme;
  readonly receiver: ServedFunction;
  readonly header: string;
  readonly secret: string;
}

export function endpointOf(
  receiver: ServedFunction,
  scheme: TestedScheme,
  secret: string = SECRETS[scheme],
): Endpoint {
  return { scheme, receiver, header: HEADERS[scheme], secret };
}

export const ENDPOINTS = ["stripe", "hex", "standard"] as const;
/** What a row may name: also of live mode alone, and before a faulty API. */
export type EndpointName = typeof ENDPOINTS[number] | "ofLive" | "behindFaults";

export function startWithSecrets(env: Environment = {}) {
  return startReceiver({
    env: {
      PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
      PROVIDER_B_SIGNING_SECRET: SECRETS["hmac-sha256-hex"],
      ...env,
    },
  });
}

export async function openStage() {
  await using opened = new AsyncDisposableStack();
  const sql = connect();
  opened.defer(() => sql.end({ timeout: 5 }));
  const faultyApi = opened.use(await startApiProxy());

  const [first, second, behindFaults] = await Promise.all([
    startWithSecrets(),
    startReceiver({
      env: {
        PROVIDER_A_SIGNING_SECRET: SECRETS["standard-webhooks"],
        PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
        PROVIDER_B_SIGNING_SECRET: SECRETS["hmac-sha256-hex"],
        PROVIDER_B_MODE: "live",
      },
    }),
    startWithSecrets({ SUPABASE_URL: faultyApi.url }),
  ]);
  for (const receiver of [first, second, behindFaults]) opened.use(receiver);
  const gateway = opened.use(await gatewayTo(first));

  // The empty body has the same ID in every run.
  await sql`delete from billing.failed_events where event_id = ${hashId("")}`;
  return Object.assign(opened.move(), {
    sql,
    stripe: endpointOf(first, "stripe"),
    hex: endpointOf(first, "hmac-sha256-hex"),
    standard: endpointOf(second, "standard-webhooks"),
    ofLive: endpointOf(second, "hmac-sha256-hex"),
    behindFaults: endpointOf(behindFaults, "stripe"),
    faultyApi,
    gatewayUrl: gateway.url,
  });
}

export type Stage = Awaited<ReturnType<typeof openStage>>;

/** In every body, so that a payload in a log is found. */
export const PAYLOAD_MARK = "CATALOGUEpayload";

/** The API version that moved fields of the older one. */
export const NEWEST = { apiVersion: "2026-10-28.endive" } as const;

const marked = <Event extends object>(event: Event) =>
  edited(event, { "data.object.note": PAYLOAD_MARK });

const subscription =
  (type: SubscriptionEventType) => (options: SubscriptionEventOptions = {}) =>
    marked(subscriptionEvent(type, options));

export const creation = subscription("customer.subscription.created");
export const update = subscription("customer.subscription.updated");
export const deletion = subscription("customer.subscription.deleted");
export const failedInvoice = (options: InvoiceEventOptions = {}) =>
  marked(invoiceEvent(options));

export type Body = string | Uint8Array<ArrayBuffer>;

export function hashId(body: Body): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

export function withText(event: object, from: string, to: string): string {
  const text = JSON.stringify(event);
  if (!text.includes(from)) throw new TypeError(`There is no ${from}`);
  return text.replace(from, () => to);
}

export function unixNow(): number {
  return Math.floor(Date.now() / 1_000);
}

export interface SignatureParts {
  readonly scheme: Endpoint["scheme"];
  /** In Unix seconds, unless the row is about that. */
  readonly time: string;
  readonly id: string;
  /** In hex, or in base64 for Standard Webhooks. */
  readonly mac: string;
}

export function signatureOf(
  { scheme, secret }: Endpoint,
  body: Body,
  { time, id = "msg_catalogue" }: { time: string; id?: string | undefined },
): SignatureParts {
  return { scheme, time, id, mac: macOf(scheme, body, { secret, time, id }) };
}

export function valueOf(
  { scheme, time, mac }: SignatureParts,
  macs: readonly string[] = [mac],
): string {
  return {
    "stripe": [`t=${time}`, ...macs.map((mac) => `v1=${mac}`)].join(","),
    "hmac-sha256-hex": macs.join(),
    "standard-webhooks": macs.map((mac) => `v1,${mac}`).join(" "),
  }[scheme];
}

export function headersOf(
  { header }: Endpoint,
  parts: SignatureParts,
  value = valueOf(parts),
): Record<string, string> {
  const { scheme, id, time } = parts;
  return scheme === "standard-webhooks"
    ? { "webhook-id": id, "webhook-timestamp": time, [header]: value }
    : { [header]: value };
}
