import { Webhook } from "standardwebhooks";
import type { Environment } from "../common/environment.ts";
import type {
  FailureOpened,
  FailuresResolved,
} from "../../supabase/functions/billing-worker/channels/channel.ts";
import { formatAmount } from "../../supabase/functions/billing-worker/channels/format_amount.ts";

/** Public, so for this machine only. */
const LOCAL_SIGNING_SECRET = "whsec_bG9jYWwtbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==";

/** What is printed of a message about a failed payment. */
interface FailedPayment {
  readonly account_id: string;
  readonly subscription_id: string;
  readonly hosted_invoice_url?: string;
  readonly amount_due?: number;
  readonly currency?: string;
}

type Message =
  | { readonly type: "billing.payment_failed"; readonly data: FailedPayment }
  | { readonly type: "billing.failure_opened"; readonly data: FailureOpened }
  | {
    readonly type: "billing.failures_resolved";
    readonly data: FailuresResolved;
  };

/**
 * Receives notifications and alerts, as far as no other destination is
 * configured.
 */
export interface NotificationReceiver extends AsyncDisposable {
  /** Returns settings with which the worker sends here what they send nowhere. */
  readonly addTo: (settings: Environment) => Environment;
}

/** Returns whether the settings name a destination for notifications. */
function hasChannel(env: Environment): boolean {
  return Boolean(env.NOTIFICATION_URL || env.RESEND_API_KEY);
}

/**
 * Listens on a free port, verifies each notification and alert with the Standard
 * Webhooks package, and prints it.
 *
 * @param print called with one line per notification or alert
 */
export function startNotificationReceiver(
  print: (line: string) => void,
): NotificationReceiver {
  const webhook = new Webhook(LOCAL_SIGNING_SECRET);
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
  }, async (request) => {
    const body = await request.text();
    try {
      const headers = Object.fromEntries(request.headers);
      const message = webhook.verify(body, headers) as Message;
      print(describe(message) ?? `verified ${body}`);
      return new Response("OK");
    } catch (error) {
      print(`refused: ${(error as Error).message}`);
      return new Response("Invalid signature", { status: 401 });
    }
  });
  const url = `http://127.0.0.1:${server.addr.port}/`;
  return {
    addTo: (settings) => ({
      ...settings,
      ...(!hasChannel(settings) && {
        NOTIFICATION_URL: url,
        NOTIFICATION_SIGNING_SECRET: LOCAL_SIGNING_SECRET,
      }),
      ...(!settings.ALERT_URL && {
        ALERT_URL: url,
        ALERT_SIGNING_SECRET: LOCAL_SIGNING_SECRET,
      }),
    }),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Returns one line; undefined for a message of another type. */
function describe({ type, data }: Message): string | undefined {
  switch (type) {
    case "billing.payment_failed":
      return `verified: ${summary(data)}`;
    case "billing.failure_opened":
      return `alert: ${data.error_code}: ${data.new} new, ${data.open} open`;
    case "billing.failures_resolved":
      return `alert: ${data.error_code}: none is open any more`;
    default:
      return undefined;
  }
}

/** Returns the amount, the account, and the link to pay. */
function summary(
  { account_id, subscription_id, hosted_invoice_url, amount_due, currency }:
    FailedPayment,
): string {
  const amount = amount_due === undefined || currency === undefined
    ? "payment"
    : `payment of ${formatAmount(amount_due, currency)}`;
  const link = hosted_invoice_url === undefined
    ? ""
    : `: ${hosted_invoice_url}`;
  return `${amount} failed for ${account_id} (${subscription_id})${link}`;
}
