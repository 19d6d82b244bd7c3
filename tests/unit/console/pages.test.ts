import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mock } from "node:test";
import { link } from "../../../scripts/console/links.ts";
import { HIDDEN } from "../../../scripts/console/visible.ts";
import { FAILURE, openConsole } from "./console_app.ts";

const HOSTILE = `"'><script>alert(1)</script><img src=x onerror=alert(2)>`;
const PAGE = "/failure?provider=a&event=evt_1";

Deno.test("every value of a failure is escaped on every page that shows it", async () => {
  const { request, send } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      // Of subscriptions, notifications and the ledger.
      id: HOSTILE,
      status: HOSTILE,
      plan_id: HOSTILE,
      outcome: HOSTILE,
      last_error: HOSTILE,
      provider: HOSTILE,
      event_id: HOSTILE,
      type: HOSTILE,
      subscription_id: HOSTILE,
      account_id: HOSTILE,
      error_code: HOSTILE,
      error: HOSTILE,
      payload: JSON.stringify({ [HOSTILE]: `</textarea></pre>${HOSTILE}` }),
      original: JSON.stringify({ a: HOSTILE }),
    }])
  );
  for (
    const response of [
      await request("/failures"),
      await request(PAGE),
      await request("/failure/repair?provider=a&event=evt_1"),
      await send("/failure/repair", {
        provider: HOSTILE,
        event: HOSTILE,
        text: `</textarea>${HOSTILE}`,
        hash: HOSTILE,
      }),
      await request(`/failures/retry?code=${encodeURIComponent(HOSTILE)}`),
      await request(`/search?q=${encodeURIComponent(HOSTILE)}`),
      await request(`/subscription?id=${encodeURIComponent(HOSTILE)}`),
    ]
  ) {
    const text = await response.text();
    assert(text.includes("&lt;script&gt;alert(1)"), "it is shown");
    assertEquals(/<script|<img/.test(text), false);
    assertEquals(
      text.match(/<\/textarea>/g)?.length ?? 0,
      text.match(/<textarea/g)?.length ?? 0,
    );
  }
});

Deno.test("every value of a resolved failure, a filter and a notification is escaped", async () => {
  const { request } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      resolved_at: "2026-11-22T00:00:00Z",
      resolution: HOSTILE,
      resolution_note: HOSTILE,
      resolved_by: HOSTILE,
      attempts: HOSTILE,
      // Of notifications.
      id: HOSTILE,
      status: "dead",
      last_error: HOSTILE,
    }])
  );
  const hostile = encodeURIComponent(HOSTILE);
  for (
    const [path, shown] of [
      [PAGE, 5],
      ["/failures?state=resolved", 1],
      [`/failures?code=${hostile}`, 1],
      [`/failures?type=${hostile}`, 1],
      ["/notifications?status=dead", 2],
    ] as const
  ) {
    const text = await (await request(path)).text();
    const times = text.split("&lt;script&gt;alert(1)").length - 1;
    assert(times >= shown, `${path}: ${times}`);
    assertEquals(/<script|<img/.test(text), false, path);
  }
});

Deno.test("the overview counts up to a thousand failures in one request", async () => {
  const codes = [...Array(999).fill("event_invalid"), HOSTILE];
  for (const more of [0, 1]) {
    const { request, calls } = openConsole(({ path }) => {
      if (path.includes("billing_health")) {
        return Response.json({ open_failures: 1_000 + more });
      }
      const headers = { "content-range": `0-999/${1_000 + more}` };
      return path.includes("error_code=eq.")
        ? Response.json([{}], { headers: { "content-range": "0-0/501" } })
        : Response.json(codes.map((error_code) => ({ error_code })), {
          headers,
        });
    });
    const text = await (await request("/")).text();
    assertStringIncludes(text, more === 0 ? ">999</td>" : ">501</td>");
    assertEquals(text.includes("&lt;script&gt;alert(1)"), more === 0);
    assertEquals(/<script/.test(text), false);
    assertEquals(calls.length > 10, more === 1, `${calls.length}`);
    // PostgREST closes the connection after HEAD, without saying so.
    await request("/failures/retry");
    assertEquals(calls.filter(({ method }) => method !== "GET"), []);
  }
});

Deno.test("what Postgres says instead of a page is escaped", async () => {
  const { request } = openConsole(() =>
    Response.json({ code: "P0001", message: HOSTILE, hint: HOSTILE }, {
      status: 400,
    })
  );
  const text = await (await request("/failures")).text();
  assertEquals(text.split("&lt;script&gt;alert(1)").length - 1, 2);
  assertEquals(/<script|<img/.test(text), false);
});

Deno.test("what Postgres says about an action is escaped", async () => {
  const { request, send } = openConsole(({ path }) =>
    path.includes("/rpc/")
      ? Response.json({ code: "P0001", message: HOSTILE, hint: HOSTILE }, {
        status: 400,
      })
      : Response.json([FAILURE])
  );
  await send("/failure/retry", { provider: "a", event: "evt_1" });
  const text = await (await request(PAGE)).text();
  assertStringIncludes(text, "&lt;script&gt;alert(1)");
  assertEquals(/<script|<img/.test(text), false);
});

Deno.test("an error of the console itself is on the terminal, and not on the page", async () => {
  const { request } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      payload_encoding: "text",
      payload: "\u001b[2J<b>",
    }])
  );
  const lines: string[] = [];
  const printed = mock.method(console, "error", (line: string) => {
    lines.push(line);
  });
  try {
    const response = await request("/failure/repair?provider=a&event=evt_1");
    assertEquals(response.status, 502);
    const text = await response.text();
    assertStringIncludes(text, "The console itself failed.");
    assertEquals(/SyntaxError|repair_routes/.test(text), false);
  } finally {
    printed.mock.restore();
  }
  assert(lines.length > 1, lines.join());
  assertStringIncludes(lines[0]!, "SyntaxError");
  assertStringIncludes(lines[0]!, "\\u001b[2J");
});

Deno.test("link() keeps every character of an ID", () => {
  const event = "evt_/?&#%2F \"'<b>\u202e";
  const url = new URL(link("/failure", { event, none: undefined }), "http://x");
  assertEquals([url.pathname, url.hash], ["/failure", ""]);
  assertEquals([...url.searchParams], [["event", event]]);
});

Deno.test("hidden characters are shown by their codes", async () => {
  const { request } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      error: "abc\u202edef\u0007\u200b",
      payload: '{"a": "x\u202ey"}',
    }])
  );
  const text = await (await request(PAGE)).text();
  for (const mark of ["U+202E", "U+0007", "U+200B"]) {
    assertStringIncludes(text, `<span class="hidden-mark">${mark}</span>`);
  }
  assertStringIncludes(text, "x\\u202ey");
  assertEquals(HIDDEN.test(text.replaceAll("\n", "")), false);
});

Deno.test("a failure says when its event occurred", async () => {
  const { request } = openConsole(() =>
    Response.json([{ ...FAILURE, occurred_at: "2025-11-22T00:00:00+00:00" }])
  );
  const text = await (await request(PAGE)).text();
  assertStringIncludes(text, "2025-11-22 00:00:00 UTC");
});

Deno.test("IDs that are far too long make no long page", async () => {
  const long = "\u202e".repeat(400_000);
  const { request, calls } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      type: long,
      subscription_id: long,
      account_id: long,
    }])
  );
  for (const path of ["/failures", PAGE]) {
    const text = await (await request(path)).text();
    assert(text.length < 200_000, `${path}: ${text.length}`);
    assertStringIncludes(text, "U+202E");
  }
  const [list] = calls.filter(({ path }) => path.includes("order="));
  assertEquals(list?.path.includes("account_id"), false);
});

Deno.test("an ID is as long as it has characters, whatever they are", async () => {
  const longest = "\u{1d4b3}".repeat(255); // two units of UTF-16 each
  const { request } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      subscription_id: longest,
      account_id: `${longest}x`,
      error: `x${"\u{1d4b3}".repeat(200)}`,
    }])
  );
  const page = await (await request(PAGE)).text();
  assertStringIncludes(
    page,
    `href="${link("/subscription", { id: longest })}"`,
  );
  assertStringIncludes(page, `${longest}…`);
  assertEquals(page.includes(link("/search", { q: `${longest}x` })), false);
  const list = await (await request("/failures")).text();
  assertEquals(list.includes("U+D835"), false, "half a character");
});

Deno.test("a long payload is cut, and the download has all of it", async () => {
  const payload = JSON.stringify({ a: "<b>".repeat(400_000) });
  const { request } = openConsole(() =>
    Response.json([{ ...FAILURE, payload }])
  );
  const text = await (await request(PAGE)).text();
  assert(text.length < 1_000_000, `${text.length}`);
  assertStringIncludes(text, "Only the beginning is shown");
  const file = await request(
    "/failure/payload?provider=a&event=evt_1&which=payload",
  );
  assertEquals(await file.text(), payload);
  assertEquals(file.headers.get("content-type"), "text/plain; charset=utf-8");
  assertStringIncludes(
    file.headers.get("content-disposition") ?? "",
    "attachment",
  );
});

Deno.test("a search leaves out what no ID can hold", async () => {
  const { request, calls } = openConsole(() => Response.json([]));
  const page = await (await request("/search?q=+evt%00_1%00+")).text();
  assertStringIncludes(page, "Nothing has this ID");
  const paths = calls.map(({ path }) => path);
  assertEquals(paths.some((path) => path.includes("eq.evt_1&")), true);
  assertEquals(paths.filter((path) => path.includes("%00")), []);
});

Deno.test("a page says what to do if the database does not answer", async () => {
  const { request } = openConsole(() => {
    throw new TypeError("connection refused");
  });
  for (
    const path of [
      "/",
      "/hours",
      "/failures",
      PAGE,
      "/notifications",
      "/search?q=x",
    ]
  ) {
    const response = await request(path);
    assertEquals(response.status, 502);
    const text = await response.text();
    assertStringIncludes(text, "Cannot reach http://127.0.0.1:54321");
    assertStringIncludes(text, "deno task start");
  }
});

Deno.test("a page says what to do if the key is refused, or something is missing", async () => {
  for (
    const [status, body, expected] of [
      [401, { message: "Invalid API key" }, "refuses the secret key"],
      [404, { code: "PGRST202", message: "no function" }, "deno task start"],
      [403, { code: "42501", message: "permission denied" }, "deno task start"],
    ] as const
  ) {
    const { request } = openConsole(() => Response.json(body, { status }));
    const text = await (await request("/failures")).text();
    assertStringIncludes(text, expected);
  }
});

for (
  const [what, status, body, expected, todo] of [
    ["is paused", 540, "Project paused", "answered 540", "Restore"],
    [
      "has lost its database",
      503,
      { code: "PGRST002", message: "no schema cache" },
      "answered 503",
      "Try again",
    ],
    ["times out", 544, "", "answered 544", "Try again"],
    ["is something else", 200, "<html>", "answered 200", "Check the URL"],
    [
      "does not expose the tables",
      406,
      { code: "PGRST106", message: "Invalid schema: public" },
      "does not expose schema public",
      "Expose it (dashboard",
    ],
    [
      "takes the key for a visitor's",
      401,
      { code: "42501", message: "permission denied for view billing_health" },
      "permission denied",
      "sb_secret_",
    ],
  ] as const
) {
  Deno.test(`a page says what to do if a hosted project ${what}`, async () => {
    const { request } = openConsole(
      () =>
        typeof body === "string"
          ? new Response(body, { status })
          : Response.json(body, { status }),
      "https://abc.supabase.co",
    );
    for (const path of ["/", "/failures", "/search?q=x"]) {
      const response = await request(path);
      assertEquals(response.status, 502);
      const text = await response.text();
      assertStringIncludes(text, expected);
      assertStringIncludes(text, todo);
    }
  });
}

Deno.test("a page says so if the project does not answer in time", async () => {
  const { request } = openConsole(() => {
    throw new DOMException("Signal timed out.", "TimeoutError");
  });
  const text = await (await request("/failures")).text();
  assertStringIncludes(text, "did not answer within 10 seconds");
  assertEquals(text.includes("deno task start"), false);
});

Deno.test("a page of the list that is gone leads to the first one", async () => {
  const { request } = openConsole(() =>
    Response.json({
      code: "PGRST103",
      message: "Requested range not satisfiable",
    }, { status: 416 })
  );
  const response = await request("/failures?code=apply_failed&page=9");
  assertEquals(
    [response.status, response.headers.get("location")],
    [303, "/failures?code=apply_failed"],
  );
});

Deno.test("an action that Postgres refuses says why, with the hint", async () => {
  const { request, send } = openConsole(({ path }) =>
    path.includes("/rpc/")
      ? Response.json({
        code: "P0001",
        message: "Cannot retry evt_1: its payload was pruned.",
        hint: "Have the provider send the event again.",
      }, { status: 400 })
      : Response.json([FAILURE])
  );
  const answer = await send("/failure/retry", {
    provider: "a",
    event: "evt_1",
  });
  assertEquals(answer.status, 303);
  const text = await (await request(answer.headers.get("location")!)).text();
  assertStringIncludes(text, "its payload was pruned.");
  assertStringIncludes(text, "Have the provider send the event again.");
  // Once.
  const again = await (await request(PAGE)).text();
  assertEquals(again.includes("its payload was pruned."), false);
});

Deno.test("the result of an action is on the page of that failure alone", async () => {
  const { request, send } = openConsole();
  const answer = await send("/failure/reopen", {
    provider: "a",
    event: "evt_1",
  });
  // As if the operator had opened another page while the action ran.
  for (const path of ["/failure?provider=a&event=evt_2", "/failures"]) {
    const other = await (await request(path)).text();
    assertEquals(other.includes("It is open again."), false, path);
  }
  const text = await (await request(answer.headers.get("location")!)).text();
  assertStringIncludes(text, "It is open again.");
});

Deno.test("a retry of what somebody has resolved meanwhile says so", async () => {
  const { request, send } = openConsole(({ path }) =>
    Response.json(
      path.includes("/rpc/") ? "It is already resolved: nothing to retry." : [{
        ...FAILURE,
        resolved_at: FAILURE.last_failed_at,
        resolution: "by hand",
      }],
    )
  );
  const answer = await send("/failure/retry", {
    provider: "a",
    event: "evt_1",
  });
  const text = await (await request(answer.headers.get("location")!)).text();
  assertStringIncludes(text, "It is already resolved: nothing to retry.");
  assertEquals(text.includes("Retried: by hand"), false);
});

for (
  const [what, retry_lease_id, says] of [
    [
      "claimed",
      "6f1c7d0e-0b0a-4c5e-9a63-0d5b2f7f6f11",
      "another session has locked its record. The worker tries it again at its next run.",
    ],
    ["not claimed", null, "The worker takes it at its next turn."],
  ] as const
) {
  Deno.test(`a retry without a result that the worker has ${what} says why`, async () => {
    const { request, send } = openConsole(({ path }) =>
      Response.json(
        path.includes("/rpc/") ? "Retry requested: 1. The worker is on" : [{
          ...FAILURE,
          retry_requested_at: FAILURE.last_failed_at,
          retry_lease_id,
        }],
      )
    );
    const answer = await send("/failure/retry", {
      provider: "a",
      event: "evt_1",
    });
    const text = await (await request(answer.headers.get("location")!)).text();
    assertStringIncludes(text, "Retry requested: 1.");
    assertStringIncludes(text, says);
  });
}

Deno.test("every request names the schema", async () => {
  const { request, send, calls } = openConsole();
  for (const path of ["/", PAGE, "/notifications", "/search?q=x", "/hours"]) {
    await request(path);
  }
  await send("/failure/retry", { provider: "a", event: "evt_1" });
  await send("/notifications/send", {});
  const rest = calls.filter(({ path }) => path.startsWith("/rest/v1/"));
  assert(rest.length > 15, `${rest.length}`);
  for (const { method, path, headers } of rest) {
    const name = method === "GET" ? "accept-profile" : "content-profile";
    assertEquals(headers.get(name), "public", path);
    assert(/^\/rest\/v1\/(?:rpc\/)?billing_/.test(path), path);
  }
});

Deno.test("the secret key follows no redirect", async () => {
  const { request, send, redirects } = openConsole(({ path }) =>
    Response.json(path.includes("/rpc/") ? "Retry requested: 1." : [FAILURE])
  );
  await request(PAGE);
  await send("/failure/retry", { provider: "a", event: "evt_1" });
  assert(redirects.length > 2);
  assertEquals([...new Set(redirects)], ["error"]);
});
