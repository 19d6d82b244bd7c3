import { Webhook } from "standardwebhooks";
import type { Environment } from "../common/environment.ts";

/** Public, so for this machine only. */
const LOCAL_SIGNING_SECRET = "whsec_bG9jYWwtbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==";

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
      webhook.verify(body, Object.fromEntries(request.headers));
      print(
        `verified ${body} (webhook-id ${request.headers.get("webhook-id")})`,
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
