import { Webhook } from "standardwebhooks";
import type { Environment } from "../common/environment.ts";

/** Public, so for this machine only. */
const LOCAL_SIGNING_SECRET = "whsec_bG9jYWwtbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==";

/**
 * Receives notifications and alerts, as far as no other destination is
 * configured.
 */
export interface NotificationReceiver extends AsyncDisposable {
  /** The settings that make the worker send here. */
  readonly env: Environment;
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
 * @param settings of the worker; what they have set is left as it is
 */
export function startNotificationReceiver(
  print: (line: string) => void,
  settings: Environment = {},
): NotificationReceiver {
  const webhook = new Webhook(LOCAL_SIGNING_SECRET);
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
  }, async (request) => {
    const body = await request.text();
    try {
      const message = webhook.verify(body, Object.fromEntries(request.headers));
      const id = request.headers.get("webhook-id");
      print(
        describeAlert(message as Message) ??
          `verified ${body} (webhook-id ${id})`,
      );
      return new Response("OK");
    } catch (error) {
      print(`refused: ${(error as Error).message}`);
      return new Response("Invalid signature", { status: 401 });
    }
  });
  const url = `http://127.0.0.1:${server.addr.port}/`;
  return {
    env: {
      ...(!hasChannel(settings) && {
        NOTIFICATION_URL: url,
        NOTIFICATION_SIGNING_SECRET: LOCAL_SIGNING_SECRET,
      }),
      ...(!settings.ALERT_URL && {
        ALERT_URL: url,
        ALERT_SIGNING_SECRET: LOCAL_SIGNING_SECRET,
      }),
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Of a message, what tells alerts from notifications, and is printed of them. */
interface Message {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Returns what is printed of an alert; undefined if it is none. */
function describeAlert({ type, data }: Message): string | undefined {
  switch (type) {
    case "billing.failure_opened":
      return `alert: ${data.error_code}: ${data.new} new, ${data.open} open`;
    case "billing.failures_resolved":
      return `alert: ${data.error_code}: none is open any more`;
    default:
      return undefined;
  }
}
