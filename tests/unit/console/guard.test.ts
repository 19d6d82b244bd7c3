import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { createSession } from "../../../scripts/console/session.ts";
import { FAILURE, HOST, openConsole } from "./console_app.ts";

const EVENT = { provider: "a", event: "evt_1" };
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

for (
  const host of [
    "evil.example",
    "evil.example:54340",
    "localhost:54340",
    "127.0.0.1",
    "127.0.0.1:54341",
    "127.0.0.1.evil.example:54340",
    "127.0.0.1:54340.evil.example",
    "127.0.0.1:543401",
    "",
  ]
) {
  Deno.test(`the console does not answer under the host "${host}"`, async () => {
    const { request, calls } = openConsole();
    for (const path of ["/failures", "/hours.svg", "/style.css"]) {
      const response = await request(path, { headers: { host } });
      assertEquals(response.status, 421, path);
    }
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

Deno.test("a link in a page of another website lets in too", async () => {
  const { request, session } = openConsole();
  const answer = await request(`/?token=${session.token}`, {
    headers: { cookie: "", "sec-fetch-site": "cross-site" },
  });
  // A redirect would still be that website's, so without the cookie.
  assertEquals(answer.status, 200);
  assertStringIncludes(
    answer.headers.get("set-cookie") ?? "",
    session.cookie,
  );
  assertStringIncludes(await answer.text(), 'http-equiv="refresh"');
});

for (
  const [what, path, cookie] of [
    ["without a cookie", "/failures", ""],
    ["without a cookie that asks for an image", "/hours.svg", ""],
    ["with another cookie", "/failures", "billing_console_54340=x"],
    ["with a wrong token", "/?token=x", ""],
    ["with an empty token", "/?token=", ""],
    ["with the token at another address", "/failures?token=TOKEN", ""],
    [
      "with the token as its cookie",
      "/failures",
      "billing_console_54340=TOKEN",
    ],
    ["with the forms' token as its cookie", "/", "billing_console_54340=CSRF"],
    ["with the cookie of another port", "/", "billing_console_54341=COOKIE"],
  ] as const
) {
  Deno.test(`a browser ${what} sees nothing of the project`, async () => {
    const { request, session, calls } = openConsole();
    const fill = (text: string) =>
      text.replace("TOKEN", session.token).replace("CSRF", session.csrf)
        .replace("COOKIE", session.cookie);
    const response = await request(fill(path), {
      headers: { cookie: fill(cookie) },
    });
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
    ["of an origin that begins so", { origin: `http://${HOST}1` }, {}],
    ["of an origin with TLS", { origin: `https://${HOST}` }, {}],
    ["that a browser calls cross-site", { "sec-fetch-site": "cross-site" }, {}],
    ["that no page sent", { "sec-fetch-site": "none" }, {}],
    ["that a browser calls same-site", { "sec-fetch-site": "same-site" }, {}],
    ["with a wrong token", {}, { csrf: "x" }],
    ["with an empty token", {}, { csrf: "" }],
    ["with the link's token", {}, { csrf: "TOKEN" }],
    ["with the cookie's value", {}, { csrf: "COOKIE" }],
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
      const { send, session, calls } = openConsole();
      const secrets: Record<string, string> = {
        TOKEN: session.token,
        COOKIE: session.cookie,
      };
      const { csrf } = fields;
      const given = csrf ? { csrf: secrets[csrf] ?? csrf } : fields;
      const response = await send(path, { ...EVENT, ...given }, headers);
      assert([401, 403].includes(response.status), `${response.status}`);
      assertEquals(calls, []);
    });
  }
}

Deno.test("a form of a browser without Sec-Fetch-Site counts", async () => {
  const { request, session } = openConsole(({ path }) =>
    Response.json(path.includes("/rpc/") ? "Retry requested." : [FAILURE])
  );
  const response = await request("/failure/retry", {
    method: "POST",
    headers: { origin: `http://${HOST}` },
    body: new URLSearchParams({ ...EVENT, csrf: session.csrf }),
  });
  assertEquals(response.status, 303);
});

for (const method of ["PUT", "PATCH", "DELETE"]) {
  Deno.test(`${method} needs the forms' token, too`, async () => {
    const { request, calls } = openConsole();
    const response = await request("/failure/retry", { method });
    assertEquals(response.status, 403);
    assertEquals(calls, []);
  });
}

Deno.test("the secrets of a session are long, random and three", () => {
  const secrets = [createSession(), createSession()]
    .flatMap(({ token, cookie, csrf }) => [token, cookie, csrf]);
  assertEquals(new Set(secrets).size, 6);
  // 256 bits.
  for (const secret of secrets) assertMatch(secret, /^[\w-]{43}$/);
});

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
    ["/hours", 200],
    ["/hours.svg", 200],
    ["/style.css", 200],
    ["/nowhere", 404],
  ] as const
) {
  Deno.test(`${path} may run no script, and no cache keeps it`, async () => {
    const { request } = openConsole();
    const response = await request(path);
    assertEquals(response.status, status);
    for (const [name, value] of Object.entries(HEADERS)) {
      assertEquals(response.headers.get(name), value, name);
    }
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
