import { assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { readDelivery } from "../../../supabase/functions/billing-webhook/read_delivery.ts";

const LIMITS = { maxBytes: 1_024, timeLimitMs: 5_000 };
const PATHS = [
  "/functions/v1/billing-webhook",
  "/functions/v1/billing-webhook/api/billing/webhook",
  "/billing-webhook",
  "/billing-webhook/api/billing/webhook",
  "/api/billing/webhook",
];

function request(path: string, init: RequestInit = {}): Request {
  return new Request(`http://localhost:9999${path}`, {
    method: "POST",
    ...init,
  });
}

async function codeOf(refused: Request): Promise<string> {
  const error = await assertRejects(
    () => readDelivery(refused, LIMITS),
    DeliveryError,
  );
  return error.code;
}

for (const path of PATHS) {
  Deno.test(`readDelivery() serves ${path}`, async () => {
    const { headers, body } = await readDelivery(
      request(path, { body: "{ }", headers: { "X-Signature": "abc" } }),
      LIMITS,
    );
    assertEquals(new TextDecoder().decode(body), "{ }");
    assertEquals(headers.get("x-signature"), "abc");
  });
}

Deno.test("readDelivery() ignores query and fragment", async () => {
  const query = "?forceFunctionRegion=eu-central-1&path=/elsewhere#part";
  await readDelivery(request(`/billing-webhook${query}`), LIMITS);
});

Deno.test("readDelivery() judges a path after the URL is resolved", async () => {
  await readDelivery(request("/elsewhere/../billing-webhook"), LIMITS);
  assertEquals(
    await codeOf(request("/billing-webhook/../elsewhere")),
    "path_unknown",
  );
});

Deno.test("readDelivery() knows no other path", async () => {
  const paths = [
    "",
    "/",
    "//",
    "//billing-webhook",
    "/billing-webhook/",
    "/billing-webhook//",
    "/billing-webhook/api/billing/webhook/",
    "/billing-webhook/api/billing",
    "/billing-webhook/billing-webhook",
    "/Billing-Webhook",
    "/%62illing-webhook",
    "/billing-webhook%2fapi/billing/webhook",
    "/billing-webhook;x",
    "/billing-webhookx",
    "/functions/v1/",
    "/functions/v1/api/billing/webhook",
    "/functions/v2/billing-webhook",
    "/functions/v1/functions/v1/billing-webhook",
    "/v1/billing-webhook",
    "/functions/v1/billing-worker",
    "/api/billing/webhooks",
    "/webhook",
  ];
  for (const path of paths) {
    assertEquals(await codeOf(request(path)), "path_unknown", path);
  }
  const segments = fc.array(
    fc.constantFrom(
      "functions",
      "v1",
      "billing-webhook",
      "api",
      "billing",
      "webhook",
      "",
    ),
    { maxLength: 7 },
  );
  await fc.assert(fc.asyncProperty(segments, async (parts) => {
    const path = `/${parts.join("/")}`;
    fc.pre(!PATHS.includes(path));
    assertEquals(await codeOf(request(path)), "path_unknown");
  }));
});

Deno.test("readDelivery() finds no path if the target is not one", async () => {
  for (const url of ["*", "", "//", "http://", "http://[", "localhost:1"]) {
    const odd = request("/billing-webhook");
    Object.defineProperty(odd, "url", { value: url });
    assertEquals(await codeOf(odd), "path_unknown", url);
  }
  const broken = request("/billing-webhook");
  Object.defineProperty(broken, "url", {
    get() {
      throw new TypeError("Invalid URL: '*'");
    },
  });
  assertEquals(await codeOf(broken), "path_unknown");
});

Deno.test("readDelivery() serves POST only", async () => {
  const methods = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"];
  for (const method of methods) {
    for (const path of PATHS) {
      assertEquals(
        await codeOf(request(path, { method })),
        "method_not_allowed",
        method,
      );
    }
    assertEquals(await codeOf(request("/", { method })), "path_unknown");
  }
});

Deno.test("readDelivery() inflates nothing", async () => {
  const encodings = [
    "gzip",
    "br",
    "deflate",
    "zstd",
    "GZIP",
    "gzip, identity",
    "identity, gzip",
    "x-unknown",
  ];
  for (const encoding of encodings) {
    const compressed = request("/billing-webhook", {
      body: "{}",
      headers: { "content-encoding": encoding },
    });
    assertEquals(await codeOf(compressed), "encoding_unsupported", encoding);
  }
  for (const encoding of ["identity", "Identity"]) {
    await readDelivery(
      request("/billing-webhook", {
        body: "{}",
        headers: { "content-encoding": encoding },
      }),
      LIMITS,
    );
  }
});

Deno.test("readDelivery() reads the body of what it refuses and throws it away, up to a multiple of the limit", async () => {
  const refused: [path: string, init: RequestInit][] = [
    ["/elsewhere", {}],
    ["/billing-webhook", { method: "PUT" }],
    ["/billing-webhook", { headers: { "content-encoding": "gzip" } }],
  ];
  for (const [path, init] of refused) {
    let sentBytes = 0;
    const endless = new ReadableStream({
      pull(controller) {
        sentBytes += 512;
        controller.enqueue(new Uint8Array(512));
      },
    }, { highWaterMark: 0 });
    await codeOf(request(path, { ...init, body: endless }));
    assertEquals(sentBytes, 8 * 1_024);
  }
});

Deno.test("readDelivery() hands on what reading the body throws", async () => {
  const large = request("/billing-webhook", { body: new Uint8Array(1_025) });
  assertEquals(await codeOf(large), "body_too_large");
});
