import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { HOST, openConsole } from "./console_app.ts";

const EVENT = { provider: "a", event: "evt_1" };

for (
  const host of [
    "evil.example",
    "evil.example:54340",
    "localhost:54340",
    "127.0.0.1",
    "127.0.0.1:54341",
    "127.0.0.1.evil.example:54340",
    "",
  ]
) {
  Deno.test(`the console does not answer under the host "${host}"`, async () => {
    const { request, calls } = openConsole();
    const response = await request("/failures", { headers: { host } });
    assertEquals(response.status, 421);
    assertEquals(calls, []);
  });
}

Deno.test("the link lets in one browser, once, and is not kept in the address", async () => {
  const { request, session } = openConsole();
  const stranger = { headers: { cookie: "" } };
  const preview = await request(`/?token=${session.token}`, {
    ...stranger,
    method: "HEAD",
  });
  assertEquals(preview.status, 401);
  const first = await request(`/?token=${session.token}`, stranger);
  assertEquals([first.status, first.headers.get("location")], [303, "/"]);
  const cookie = first.headers.get("set-cookie") ?? "";
  assertStringIncludes(cookie, session.cookie);
  for (const attribute of ["HttpOnly", "SameSite=Strict", "Path=/"]) {
    assertStringIncludes(cookie, attribute);
  }
  const [pair = ""] = cookie.split(";");
  const known = await request("/failures", { headers: { cookie: pair } });
  assertEquals(known.status, 200);

  const second = await request(`/?token=${session.token}`, stranger);
  assertEquals(second.status, 401);
  assertEquals(second.headers.get("set-cookie"), null);
  const again = await request(`/?token=${session.token}`, {
    headers: { cookie: pair },
  });
  assertEquals([again.status, again.headers.get("location")], [303, "/"]);
});

for (
  const [what, path, cookie] of [
    ["without a cookie", "/failures", ""],
    ["with another cookie", "/failures", "billing_console_54340=x"],
    ["with a wrong token", "/?token=x", ""],
    ["with an empty token", "/?token=", ""],
  ] as const
) {
  Deno.test(`a browser ${what} sees nothing of the project`, async () => {
    const { request, calls } = openConsole();
    const response = await request(path, { headers: { cookie } });
    assertEquals(response.status, 401);
    assertEquals((await response.text()).includes("54321"), false);
    assertEquals(calls, []);
  });
}

for (
  const [what, headers, fields] of [
    ["of another website", { origin: "https://evil.example" }, {}],
    [
      "of another port of this machine",
      { origin: "http://127.0.0.1:3000" },
      {},
    ],
    ["of an unknown origin", { origin: "null" }, {}],
    ["that a browser calls cross-site", { "sec-fetch-site": "cross-site" }, {}],
    ["that a browser calls same-site", { "sec-fetch-site": "same-site" }, {}],
    ["with a wrong token", {}, { csrf: "x" }],
    ["with an empty token", {}, { csrf: "" }],
    ["without a cookie", { cookie: "" }, {}],
  ] as [string, Record<string, string>, Record<string, string>][]
) {
  for (
    const path of [
      "/failure/retry",
      "/failure/resolve",
      "/failure/repair",
      "/failure/reopen",
      "/failures/retry",
      "/notifications/send",
    ]
  ) {
    Deno.test(`${path} refuses a form ${what}`, async () => {
      const { send, calls } = openConsole();
      const response = await send(path, { ...EVENT, ...fields }, headers);
      assert([401, 403].includes(response.status), `${response.status}`);
      assertEquals(calls, []);
    });
  }
}

Deno.test("a form without Origin is refused", async () => {
  const { request, session, calls } = openConsole();
  const response = await request("/failure/retry", {
    method: "POST",
    body: new URLSearchParams({ ...EVENT, csrf: session.csrf }),
  });
  assertEquals(response.status, 403);
  assertEquals(calls, []);
});

for (
  const [path, status] of [
    ["/failures", 200],
    ["/failure?provider=a&event=evt_1", 200],
    ["/style.css", 200],
    ["/nowhere", 404],
  ] as const
) {
  Deno.test(`${path} may run no script, and no cache keeps it`, async () => {
    const { request } = openConsole();
    const response = await request(path);
    assertEquals(response.status, status);
    const policy = response.headers.get("content-security-policy") ?? "";
    for (
      const part of [
        "default-src 'none'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
      ]
    ) assertStringIncludes(policy, part);
    assertEquals(/script-src|unsafe|\*|https?:|data:/.test(policy), false);
    assertEquals(response.headers.get("cache-control"), "no-store");
    assertEquals(response.headers.get("x-content-type-options"), "nosniff");
    assertEquals(response.headers.get("referrer-policy"), "same-origin");
  });
}

Deno.test("refusals and errors have the same headers", async () => {
  const { request } = openConsole(() => {
    throw new TypeError("connection refused");
  });
  for (
    const response of [
      await request("/failures", { headers: { host: "evil.example" } }),
      await request("/failures", { headers: { cookie: "" } }),
      await request("/failures"),
    ]
  ) {
    assertStringIncludes(
      response.headers.get("content-security-policy") ?? "",
      "default-src 'none'",
    );
  }
});

Deno.test("the secret key is on no page", async () => {
  const { request, calls } = openConsole();
  for (const path of ["/failures", "/failure?provider=a&event=evt_1"]) {
    const text = await (await request(path)).text();
    assertEquals(text.includes("sb_secret"), false);
  }
  assert(calls.length > 0);
  for (const { headers } of calls) {
    assertEquals(headers.get("apikey"), "sb_secret_of_this_test");
  }
});

Deno.test("a form that is too long is refused", async () => {
  const { send, calls } = openConsole();
  const response = await send("/failure/repair", {
    ...EVENT,
    text: "x".repeat(17 * 1024 * 1024),
  });
  assertEquals(response.status, 413);
  assertEquals(calls, []);
});

Deno.test("pages link to this console alone", async () => {
  const { request } = openConsole();
  const text = await (await request("/failure?provider=a&event=evt_1")).text();
  const targets = [...text.matchAll(/(?:href|src|action)="([^"]*)"/g)]
    .map(([, target = ""]) => new URL(target, `http://${HOST}/`).host);
  assert(targets.length > 5);
  assertEquals([...new Set(targets)], [HOST]);
});
