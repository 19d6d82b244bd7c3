import { Webhook } from "standardwebhooks";
import type { Environment } from "../common/environment.ts";
import { formatAmount } from "../../supabase/functions/billing-worker/channels/format_amount.ts";

/** Public, so for this machine only. */
const LOCAL_SIGNING_SECRET = "whsec_bG9jYWwtbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==";

/** What is printed of a message about a failed payment. */
interface Message {
  readonly type: string;
  readonly data: {
    readonly account_id: string;
    readonly subscription_id: string;
    readonly hosted_invoice_url?: string;
    readonly amount_due?: number;
    readonly currency?: string;
  };
}

/** Receives notifications as long as no other destination is configured. */
export interface NotificationReceiver extends AsyncDisposable {
  /** The settings that make the worker send here. */
  readonly env: Environment;
}

/** Returns whether the settings name a destination for notifications. */
export function hasChannel(env: Environment): boolean {
  return Boolean(env.NOTIFICATION_URL || env.RESEND_API_KEY);
}

/**
 * Listens on a free port, verifies each notification with the Standard
 * Webhooks package, and prints it.
 *
 * @param print called with one line per notification
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
      print(
        message.type === "billing.payment_failed"
          ? `verified: ${summary(message.data)}`
          : `verified ${body}`,
      );
      return new Response("OK");
    } catch (error) {
      print(`refused: ${(error as Error).message}`);
      return new Response("Invalid signature", { status: 401 });
    }
  });
  return {
    env: {
      NOTIFICATION_URL: `http://127.0.0.1:${server.addr.port}/`,
      NOTIFICATION_SIGNING_SECRET: LOCAL_SIGNING_SECRET,
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Returns one line: the amount, the account, and the link to pay. */
function summary(
  { account_id, subscription_id, hosted_invoice_url, amount_due, currency }:
    Message["data"],
): string {
  const amount = amount_due === undefined || currency === undefined
    ? "payment"
    : `payment of ${formatAmount(amount_due, currency)}`;
  const link = hosted_invoice_url === undefined
    ? ""
    : `: ${hosted_invoice_url}`;
  return `${amount} failed for ${account_id} (${subscription_id})${link}`;
}
