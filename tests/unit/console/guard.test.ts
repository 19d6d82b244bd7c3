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

Deno.test("a request under another host, or without the session's cookie, sees nothing of the project", async () => {
  for (
    const [status, path, headers] of [
      ...[
        ...["evil.example", "evil.example:54340", "localhost:54340", ""],
        ...["127.0.0.1", "127.0.0.1:54341", "127.0.0.1:543401"],
        ...["127.0.0.1.evil.example:54340", "127.0.0.1:54340.evil.example"],
      ].flatMap((host) =>
        ["/failures", "/hours.svg", "/style.css"]
          .map((path) => [421, path, { host }] as const)
      ),
      [401, "/failures", { cookie: "" }],
      [401, "/hours.svg", { cookie: "" }],
      [401, "/failures", { cookie: "billing_console_54340=x" }],
      [401, "/?token=x", { cookie: "" }],
      [401, "/?token=", { cookie: "" }],
      [401, "/failures?token=TOKEN", { cookie: "" }],
      [401, "/", { cookie: "billing_console_54340=TOKEN" }],
      [401, "/", { cookie: "billing_console_54340=CSRF" }],
      [401, "/", { cookie: "billing_console_54341=COOKIE" }],
    ] as [number, string, Record<string, string>][]
  ) {
    const { request, session, calls } = openConsole();
    const fill = (text: string) =>
      text.replace("TOKEN", session.token).replace("CSRF", session.csrf)
        .replace("COOKIE", session.cookie);
    const filled = JSON.parse(fill(JSON.stringify(headers)));
    const response = await request(fill(path), { headers: filled });
    assertEquals(response.status, status, `${path} ${JSON.stringify(headers)}`);
    assertEquals((await response.text()).includes("54321"), false);
    assertEquals(calls, []);
  }
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

Deno.test("a form that no page of the console sent does nothing", async () => {
  for (
    const [headers, csrf, method = "POST"] of [
      [{ origin: "https://evil.example" }],
      [{ origin: "http://127.0.0.1:3000" }],
      [{ origin: "null" }],
      [{ origin: `http://${HOST}1` }],
      [{ origin: `https://${HOST}` }],
      [{ origin: "" }],
      [{ origin: "" }, undefined, "DELETE"],
      [{ "sec-fetch-site": "cross-site" }],
      [{ "sec-fetch-site": "same-site" }],
      [{ "sec-fetch-site": "none" }],
      [{ cookie: "" }],
      [{}, "x"],
      [{}, ""],
      [{}, "token"],
      [{}, "cookie"],
    ] as [Record<string, string>, string?, string?][]
  ) {
    const { send, session, calls } = openConsole();
    const { token, cookie } = session;
    const secrets: Record<string, string> = { token, cookie };
    const given = csrf === undefined
      ? KEY
      : { ...KEY, csrf: secrets[csrf] ?? csrf };
    for (
      const path of [
        ...["/failure/retry", "/failure/resolve", "/failure/repair"],
        ...["/failure/reopen", "/failures/retry", "/notifications/send"],
      ]
    ) {
      const { status } = await send(path, given, { headers, method });
      assert(status === 401 || status === 403, `${path}: ${status}`);
    }
    assertEquals(calls, []);
  }
});

Deno.test("every answer has the headers, and leads to this console alone", async () => {
  const { request, send, calls, session } = openConsole(({ path }) => {
    if (path.includes("billing_health")) throw new TypeError("refused");
    return Response.json(path.includes("/rpc/") ? "" : [ROW]);
  });
  const headers = { cookie: "" };
  // An old browser sends no Sec-Fetch-Site.
  const ofOldBrowser = {
    method: "POST",
    headers: { origin: `http://${HOST}` },
    body: new URLSearchParams({ ...KEY, csrf: session.csrf }),
  };
  const tooLong = { ...KEY, text: "x".repeat(17 * 1024 * 1024) };
  for (
    const [status, response] of [
      [200, await request(PAGE)],
      [200, await request("/hours.svg")],
      [200, await request("/style.css", { headers })],
      [200, await request("/pico/1.svg", { headers })],
      [303, await request("/failure/retry", ofOldBrowser)],
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
    const text = await response.text();
    const targets = text.matchAll(/(?:(?:href|src|action)=|url\()"([^"]*)"/g)
      .map(([, target = ""]) => new URL(target, `http://${HOST}/`).host);
    assertEquals([...targets].filter((host) => host !== HOST), []);
    assertEquals(/sb_secret|@import/.test(text), false);
  }
  assert(calls.length > 3);
  for (const { headers, redirect } of calls) {
    assertEquals(headers.get("apikey"), "sb_secret_of_this_test");
    assertEquals(redirect, "error");
  }
});
