import { assert, assertEquals } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { alertChannel } from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import type { Alert } from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { OPENED, RESOLVED } from "../../support/alerts.ts";

const URL_TEXT = "https://ops.test:8443/URL-SECRET?token=URL-SECRET";
const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

/** Sends an alert that is answered so, and returns the request as well. */
async function send(alert: Alert, answer: () => Response) {
  const requests: Request[] = [];
  const channel = alertChannel(URL_TEXT, {
    secret: SECRET,
    fetch: (input, init) => {
      assert(init?.signal, "The attempt has no time limit");
      requests.push(new Request(input, { ...init, signal: null }));
      return Promise.resolve(answer());
    },
    clock: Date.now,
  });
  const attempt = await channel.send(alert);
  assertEquals(requests.length, 1);
  return { attempt, request: requests[0]! };
}

for (
  const [alert, message] of [
    [OPENED, {
      type: "billing.failure_opened",
      timestamp: "2026-11-21T06:25:00.113Z",
      data: {
        error_code: "event_invalid",
        error: "data.object.metadata.accountId is missing",
        open: 12,
        new: 3,
        first_failed_at: "2026-11-21T05:07:41.500Z",
        last_failed_at: "2026-11-21T06:24:03.113Z",
        provider: "a",
        event_id: "evt_1",
        event_type: "customer.subscription.created",
      },
    }],
    [RESOLVED, {
      type: "billing.failures_resolved",
      timestamp: "2026-11-21T09:00:00.500Z",
      data: {
        error_code: "event_invalid",
        resolved: 12,
        opened_at: "2026-11-21T06:25:00.113Z",
      },
    }],
  ] as const
) {
  Deno.test(`alertChannel() posts ${alert.kind} as a webhook that the package verifies`, async () => {
    const { attempt, request } = await send(alert, () => new Response("OK"));
    assertEquals(attempt, { result: "sent" });
    assertEquals([request.method, request.url], ["POST", URL_TEXT]);
    assertEquals(request.redirect, "manual");
    assertEquals(request.headers.get("content-type"), "application/json");
    assertEquals(request.headers.get("webhook-id"), alert.id);
    const verified = new Webhook(SECRET).verify(
      await request.text(),
      Object.fromEntries(request.headers),
    );
    assertEquals(verified, message);
  });
}

Deno.test("alertChannel() is paused by itself, and names no more than the host", () => {
  const { destination } = alertChannel(URL_TEXT, {
    secret: SECRET,
    fetch,
    clock: Date.now,
  });
  assertEquals(destination, "alerts to ops.test:8443");
});

Deno.test("alertChannel() names ALERT_URL in its errors, and never its value", async () => {
  const redirected = await send(
    OPENED,
    () => new Response("", { status: 308 }),
  );
  assertEquals(redirected.attempt, {
    result: "failed",
    error:
      "the receiver answered 308, and redirects are not followed: set ALERT_URL to the final URL",
    retryAfterSeconds: undefined,
  });
  const broken = await send(OPENED, () => {
    throw new TypeError(
      `error sending request for url (${URL_TEXT}): client error (Connect)`,
    );
  });
  assertEquals(broken.attempt, {
    result: "failed",
    error: "error sending request for url (ALERT_URL): client error (Connect)",
  });
});
