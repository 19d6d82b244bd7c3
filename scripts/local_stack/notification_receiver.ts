import { Webhook } from "standardwebhooks";
import { formatAmount } from "../../supabase/functions/billing-worker/channels/format_amount.ts";
import type { Environment } from "../common/environment.ts";

const SIGNING_SECRET = "whsec_bG9jYWwtbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==";

interface Message {
  readonly type: string;
  readonly data: Readonly<Record<string, string | number | undefined>>;
}

/** Verifies each notification and alert, and prints it in one line. */
export function startNotificationReceiver(print: (line: string) => void) {
  const webhook = new Webhook(SIGNING_SECRET);

  const listen = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const server = Deno.serve(listen, async (request) => {
    const body = await request.text();
    try {
      const headers = Object.fromEntries(request.headers);
      print(describe(webhook.verify(body, headers) as Message, body));
      return new Response("OK");
    } catch (error) {
      print(`refused: ${(error as Error).message}`);
      return new Response("Invalid signature", { status: 401 });
    }
  });

  const url = `http://127.0.0.1:${server.addr.port}/`;
  return {
    /** Adds this receiver as the destination if the settings name none. */
    addTo: (settings: Environment): Environment => ({
      ...settings,
      ...(!settings.NOTIFICATION_URL && !settings.RESEND_API_KEY && {
        NOTIFICATION_URL: url,
        NOTIFICATION_SIGNING_SECRET: SIGNING_SECRET,
      }),
      ...(!settings.ALERT_URL && {
        ALERT_URL: url,
        ALERT_SIGNING_SECRET: SIGNING_SECRET,
      }),
    }),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

function describe({ type, data }: Message, body: string): string {
  switch (type) {
    case "billing.payment_failed": {
      const { amount_due, currency, hosted_invoice_url: link } = data;
      const amount = amount_due === undefined || currency === undefined
        ? ""
        : ` of ${formatAmount(Number(amount_due), `${currency}`)}`;
      const what = `payment${amount} failed for ${data.account_id}`;
      const at = link ? `: ${link}` : "";
      return `verified: ${what} (${data.subscription_id})${at}`;
    }
    case "billing.failure_opened":
      return `alert: ${data.error_code}: ${data.new} new, ${data.open} open`;
    case "billing.failures_resolved":
      return `alert: ${data.error_code}: none is open any more`;
    case "billing.handler_not_listed":
      return `alert: no type in HANDLE_EVENT_TYPES calls ${data.handlers}`;
    default:
      return `verified ${body}`;
  }
}
