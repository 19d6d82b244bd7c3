/** Who gets in, and what no answer may lack. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FAILURE, HOST, KEY, openConsole, PAGE } from "./console_app.ts";

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

const ACTIONS = [
  "/failure/retry",
  "/failure/resolve",
  "/failure/repair",
  "/failure/reopen",
  "/failures/retry",
  "/notifications/send",
];

Deno.test("the console answers under its own host alone", async () => {
  const { request, calls } = openConsole();
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
    for (const path of ["/failures", "/hours.svg", "/style.css"]) {
      const response = await request(path, { headers: { host } });
      assertEquals(response.status, 421, `${host} ${path}`);
    }
  }
  assertEquals(calls, []);
});

Deno.test("the link lets in one browser, once", async () => {
  const { request, session } = openConsole();
  const enter = (init: RequestInit) =>
    request(`/?token=${session.token}`, { headers: { cookie: "" }, ...init });
  assertEquals((await enter({ method: "HEAD" })).status, 401, "a preview");
  const first = await enter({});
  assertEquals([first.status, first.headers.get("location")], [303, "/"]);
  const cookie = first.headers.get("set-cookie") ?? "";
  for (const part of [session.cookie, "HttpOnly", "SameSite=Strict"]) {
    assertStringIncludes(cookie, part);
  }
  const second = await enter({});
  assertEquals([second.status, second.headers.get("set-cookie")], [401, null]);
  const known = await enter({ headers: { cookie: cookie.split(";")[0]! } });
  assertEquals([known.status, known.headers.get("location")], [303, "/"]);
});

Deno.test("a link in a page of another website lets in too", async () => {
  const { request, session } = openConsole();
  const answer = await request(`/?token=${session.token}`, {
    headers: { cookie: "", "sec-fetch-site": "cross-site" },
  });
  // A redirect would still be that website's, so without the cookie.
  assertEquals(answer.status, 200);
  assertStringIncludes(answer.headers.get("set-cookie") ?? "", session.cookie);
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
    ["with the token as its cookie", "/", "billing_console_54340=TOKEN"],
    ["with the forms' token as its cookie", "/", "billing_console_54340=CSRF"],
    ["with the cookie of another port", "/", "billing_console_54341=COOKIE"],
  ] as const
) {
  Deno.test(`a browser ${what} sees nothing of the project`, async () => {
    const { request, session, calls } = openConsole();
    const fill = (text: string) =>
      text.replace("TOKEN", session.token).replace("CSRF", session.csrf)
        .replace("COOKIE", session.cookie);
    const headers = { cookie: fill(cookie) };
    const response = await request(fill(path), { headers });
    assertEquals(response.status, 401);
    assertEquals((await response.text()).includes("54321"), false);
    assertEquals(calls, []);
  });
}

for (
  const [what, headers, fields] of [
    ["of another website", { origin: "https://evil.example" }, {}],
    ["of another port", { origin: "http://127.0.0.1:3000" }, {}],
    ["of an unknown origin", { origin: "null" }, {}],
    ["of an origin that begins so", { origin: `http://${HOST}1` }, {}],
    ["of an origin with TLS", { origin: `https://${HOST}` }, {}],
    ["that a browser calls cross-site", { "sec-fetch-site": "cross-site" }, {}],
    ["that a browser calls same-site", { "sec-fetch-site": "same-site" }, {}],
    ["that no page sent", { "sec-fetch-site": "none" }, {}],
    ["with a wrong token", {}, { csrf: "x" }],
    ["with an empty token", {}, { csrf: "" }],
    ["with the link's token", {}, { csrf: "token" }],
    ["with the cookie's value", {}, { csrf: "cookie" }],
    ["without a cookie", { cookie: "" }, {}],
  ] as [string, Record<string, string>, { csrf?: string }][]
) {
  Deno.test(`a form ${what} does nothing`, async () => {
    const { send, session, calls } = openConsole();
    const { token, cookie } = session;
    const secrets: Record<string, string> = { token, cookie };
    const csrf = fields.csrf && (secrets[fields.csrf] ?? fields.csrf);
    const given = csrf === undefined ? KEY : { ...KEY, csrf };
    for (const path of ACTIONS) {
      const { status } = await send(path, given, headers);
      assert(status === 401 || status === 403, `${path}: ${status}`);
    }
    assertEquals(calls, []);
  });
}

Deno.test("a form needs Origin, and every method but GET and HEAD a form", async () => {
  const { request, session, calls } = openConsole();
  const body = () => new URLSearchParams({ ...KEY, csrf: session.csrf });
  for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
    const init = { method, body: body() };
    assertEquals((await request("/failure/retry", init)).status, 403, method);
  }
  assertEquals(calls, []);
  // An old browser without Sec-Fetch-Site.
  const headers = { origin: `http://${HOST}` };
  const init = { method: "POST", headers, body: body() };
  assertEquals((await request("/failure/retry", init)).status, 303);
});

Deno.test("every answer has the headers, also a refusal, an error and an image", async () => {
  const { request, send } = openConsole(({ path }) => {
    if (path.includes("billing_health")) throw new TypeError("refused");
    return Response.json([FAILURE]);
  });
  const cookie = "";
  const tooLong = { ...KEY, text: "x".repeat(17 * 1024 * 1024) };
  for (
    const [status, response] of [
      [200, await request(PAGE)],
      [200, await request("/hours.svg", {})],
      [200, await request("/style.css", { headers: { cookie } })],
      [200, await request("/pico/0.svg", { headers: { cookie } })],
      [404, await request("/pico/99.svg")],
      [404, await request("/nowhere")],
      [421, await request("/", { headers: { host: "evil.example" } })],
      [401, await request("/", { headers: { cookie } })],
      [413, await send("/failure/repair", tooLong)],
      [502, await request("/")],
    ] as const
  ) {
    assertEquals(response.status, status);
    for (const [name, value] of Object.entries(HEADERS)) {
      assertEquals(response.headers.get(name), value, name);
    }
  }
});

Deno.test("pages and styles lead to this console alone, and hold no secret key", async () => {
  const { read, send, calls } = openConsole();
  const pages = [await read(PAGE), await read("/style.css")].join("\n");
  const targets = pages.matchAll(/(?:(?:href|src|action)=|url\()"([^"]*)"/g)
    .map(([, target = ""]) => new URL(target, `http://${HOST}/`).host);
  assertEquals([...new Set(targets)], [HOST]);
  assertEquals(/sb_secret|@import/.test(pages), false);
  await send("/failure/retry", KEY);
  assert(calls.length > 3);
  for (const { headers, redirect } of calls) {
    assertEquals(headers.get("apikey"), "sb_secret_of_this_test");
    assertEquals(redirect, "error");
  }
});
