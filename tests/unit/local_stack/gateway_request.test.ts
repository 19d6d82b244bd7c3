import { assertEquals } from "@std/assert";
import {
  authorize,
  routeOf,
} from "../../../scripts/local_stack/gateway_request.ts";
import { localKeys, signToken } from "../../../scripts/common/keys.ts";

const keys = await localKeys();

Deno.test("authorize() turns a new key into its role's token", async () => {
  const { secret, publishable, serviceRole, anon } = keys;
  assertEquals(
    await authorize({ apikey: secret }, keys),
    `Bearer ${serviceRole}`,
  );
  assertEquals(
    await authorize({ apikey: publishable }, keys),
    `Bearer ${anon}`,
  );
});

Deno.test("authorize() replaces a new key that is sent as the token too", async () => {
  for (const scheme of ["Bearer", "bearer"]) {
    const authorization = `${scheme} ${keys.secret}`;
    assertEquals(
      await authorize({ apikey: keys.secret, authorization }, keys),
      `Bearer ${keys.serviceRole}`,
    );
  }
});

Deno.test("authorize() prefers the request's own token", async () => {
  const authorization = `Bearer ${await signToken({ role: "authenticated" })}`;
  assertEquals(
    await authorize({ apikey: keys.secret, authorization }, keys),
    authorization,
  );
});

Deno.test("authorize() accepts keys of the old kind unchanged", async () => {
  const own = await signToken({ role: "authenticated" });
  for (const apikey of [keys.anon, keys.serviceRole, own]) {
    assertEquals(await authorize({ apikey }, keys), `Bearer ${apikey}`);
  }
});

Deno.test("authorize() refuses a missing or wrong key, with or without a token", async () => {
  const authorization = `Bearer ${keys.serviceRole}`;
  for (
    const apikey of [
      undefined,
      "",
      "sb_secret_wrong",
      `${keys.secret} `,
      `${keys.serviceRole}x`,
    ]
  ) {
    assertEquals(await authorize({ apikey }, keys), undefined);
    assertEquals(await authorize({ apikey, authorization }, keys), undefined);
  }
});

Deno.test("routeOf() strips the same prefixes as the platform", () => {
  const routes = {
    "/rest/v1/subscriptions?id=eq.%2F": ["rest", "/subscriptions?id=eq.%2F"],
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
      "/rest/v1x/subscriptions",
      "/functions/v1",
      "/functions/v1/billing-webhooks",
      "/functions/v1/../rest/v1/subscriptions",
      "/functions/v1/other",
      "/api/billing",
      "/billing-webhook",
      "//rest/v1/",
    ]
  ) {
    assertEquals(routeOf(target), undefined, target);
  }
});
