import { assertEquals } from "@std/assert";
import { routeOf } from "../../../scripts/local_stack/gateway_request.ts";

Deno.test("routeOf() strips the same prefixes as the platform", () => {
  const routes = {
    "/rest/v1/billing_subscriptions?id=eq.%2F": [
      "rest",
      "/billing_subscriptions?id=eq.%2F",
    ],
    "/rest/v1": ["rest", "/"],
    "/rest/v1?a=b": ["rest", "/?a=b"],
    "/functions/v1/billing-webhook": ["webhook", "/billing-webhook"],
    "/functions/v1/billing-webhook/api/billing/webhook?x": [
      "webhook",
      "/billing-webhook/api/billing/webhook?x",
    ],
    "/functions/v1/billing-worker/": ["worker", "/billing-worker/"],
    "/api/billing/webhook": ["webhook", "/api/billing/webhook"],
    "http://127.0.0.1:54321/api/billing/webhook": [
      "webhook",
      "/api/billing/webhook",
    ],
  } as const;
  for (const [target, [to, path]] of Object.entries(routes)) {
    assertEquals(routeOf(target), { to, path }, target);
  }
});

Deno.test("routeOf() returns undefined for other paths", () => {
  for (
    const target of [
      "",
      "*",
      "/",
      "/rest/v10",
      "/rest/v1x/billing_subscriptions",
      "/functions/v1",
      "/functions/v1/billing-webhooks",
      "/functions/v1/../rest/v1/billing_subscriptions",
      "/functions/v1/other",
      "/api/billing",
      "/billing-webhook",
      "//rest/v1/",
    ]
  ) {
    assertEquals(routeOf(target), undefined, target);
  }
});
