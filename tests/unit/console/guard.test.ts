/** Who gets in, and what no answer may lack. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { HOST, KEY, openConsole, PAGE, ROW } from "./console_app.ts";

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
  ...["/failure/retry", "/failure/resolve", "/failure/repair"],
  ...["/failure/reopen", "/failures/retry", "/notifications/send"],
];

Deno.test("the console answers under its own host alone", async () => {
  const { request, calls } = openConsole();
  for (
    const host of [
      ...["evil.example", "evil.example:54340", "localhost:54340", ""],
      ...["127.0.0.1", "127.0.0.1:54341", "127.0.0.1:543401"],
      ...["127.0.0.1.evil.example:54340", "127.0.0.1:54340.evil.example"],
    ]
  ) {
    for (const path of ["/failures", "/hours.svg", "/style.css"]) {
      const { status } = await request(path, { headers: { host } });
      assertEquals(status, 421, `${host} ${path}`);
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

Deno.test("a browser without the session's cookie sees nothing of the project", async () => {
  for (
    const [path, cookie] of [
      ["/failures", ""],
      ["/hours.svg", ""],
      ["/failures", "billing_console_54340=x"],
      ["/?token=x", ""],
      ["/?token=", ""],
      ["/failures?token=TOKEN", ""],
      ["/", "billing_console_54340=TOKEN"],
      ["/", "billing_console_54340=CSRF"],
      ["/", "billing_console_54341=COOKIE"],
    ] as const
  ) {
    const { request, session, calls } = openConsole();
    const fill = (text: string) =>
      text.replace("TOKEN", session.token).replace("CSRF", session.csrf)
        .replace("COOKIE", session.cookie);
    const headers = { cookie: fill(cookie) };
    const response = await request(fill(path), { headers });
    assertEquals(response.status, 401, `${path} ${cookie}`);
    assertEquals((await response.text()).includes("54321"), false);
    assertEquals(calls, []);
  }
});

Deno.test("a form that no page of the console sent does nothing", async () => {
  for (
    const [headers, csrf] of [
      [{ origin: "https://evil.example" }],
      [{ origin: "http://127.0.0.1:3000" }],
      [{ origin: "null" }],
      [{ origin: `http://${HOST}1` }],
      [{ origin: `https://${HOST}` }],
      [{ "sec-fetch-site": "cross-site" }],
      [{ "sec-fetch-site": "same-site" }],
      [{ "sec-fetch-site": "none" }],
      [{ cookie: "" }],
      [{}, "x"],
      [{}, ""],
      [{}, "token"],
      [{}, "cookie"],
    ] as [Record<string, string>, string?][]
  ) {
    const { send, session, calls } = openConsole();
    const { token, cookie } = session;
    const secrets: Record<string, string> = { token, cookie };
    const given = csrf === undefined
      ? KEY
      : { ...KEY, csrf: secrets[csrf] ?? csrf };
    for (const path of ACTIONS) {
      const { status } = await send(path, given, headers);
      assert(status === 401 || status === 403, `${path}: ${status}`);
    }
    assertEquals(calls, []);
  }
});

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
    return Response.json([ROW]);
  });
  const headers = { cookie: "" };
  const tooLong = { ...KEY, text: "x".repeat(17 * 1024 * 1024) };
  for (
    const [status, response] of [
      [200, await request(PAGE)],
      [200, await request("/hours.svg")],
      [200, await request("/style.css", { headers })],
      [200, await request("/pico/1.svg", { headers })],
      [404, await request("/nowhere")],
      [421, await request("/", { headers: { host: "evil.example" } })],
      [401, await request("/", { headers })],
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

Deno.test("pages and styles lead to this console alone, and the key goes nowhere else", async () => {
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
