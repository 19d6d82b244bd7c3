/** What the pages show, and what the actions send. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mock } from "node:test";
import { HIDDEN } from "../../../scripts/console/text.tsx";
import { answering, FAILURE, KEY, openConsole, PAGE } from "./console_app.ts";

const HOSTILE = `"'><script>alert(1)</script><img src=x onerror=alert(2)>`;
const REPAIR = "/failure/repair?provider=a&event=evt_1";
const DELETION =
  '{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1","n":12345678901234567890,"n":1.10}}}';

Deno.test("every value from outside is escaped on every page", async () => {
  const q = encodeURIComponent(HOSTILE);
  const row = Object.fromEntries(
    [
      ...["id", "status", "plan_id", "outcome", "last_error", "provider"],
      ...["event_id", "type", "subscription_id", "account_id", "error_code"],
      ...["error", "attempts", "customer_id", "resolution", "resolved_by"],
      ...["resolution_note", "provider_status", "quantity"],
    ].map((name) => [name, HOSTILE]),
  );
  const payload = JSON.stringify({ [HOSTILE]: `</textarea></pre>${HOSTILE}` });
  for (const resolved_at of [null, FAILURE.last_failed_at]) {
    const changed = { ...FAILURE, ...row, resolved_at, payload };
    const headers = { "content-range": "0-0/1" };
    const { read, send } = openConsole(() =>
      Response.json([{ ...changed, original: payload }], { headers })
    );
    const refused = await send("/failure/repair", {
      ...{ provider: HOSTILE, event: HOSTILE },
      ...{ text: `</textarea>${HOSTILE}`, hash: HOSTILE },
    });
    for (
      const page of [
        await refused.text(),
        ...await Promise.all([
          ...["/", "/failures", PAGE, "/notifications"].map(read),
          ...[`/failures?code=${q}`, `/failures?type=${q}`].map(read),
          ...[`/search?q=${q}`].map(read),
          ...(resolved_at === null ? [read(REPAIR)] : []),
        ]),
      ]
    ) {
      assertStringIncludes(page, "&lt;script&gt;alert(1)");
      assertEquals(/<script|<img src=x/.test(page), false);
      const [opened, closed] = ["<textarea", "</textarea>"]
        .map((tag) => page.split(tag).length);
      assertEquals(opened, closed);
    }
  }
});

Deno.test("what Postgres says is escaped, on a page and after an action", async () => {
  const body = { code: "P0001", message: HOSTILE, hint: HOSTILE };
  const { read, act } = openConsole(({ path }) =>
    path.includes("event_id=eq.")
      ? Response.json([FAILURE])
      : Response.json(body, { status: 400 })
  );
  for (const page of [await read("/failures"), await act("/failure/retry")]) {
    assertEquals(page.split("&lt;script&gt;alert(1)").length - 1, 2);
    assertEquals(page.includes("<script"), false);
  }
  // Once.
  assertEquals((await read(PAGE)).includes("alert(1)"), false);
});

Deno.test("hidden characters are shown by their codes, and long texts are cut", async () => {
  const payload = JSON.stringify({ a: `x\u202ey${"<b>".repeat(400_000)}` });
  const longest = "\u{1d4b3}".repeat(255); // two units of UTF-16 each
  const { read } = openConsole(answering("", {
    error: "abc\u202edef\u0007\u200b",
    type: "\u202e".repeat(400_000),
    subscription_id: longest,
    account_id: `${longest}x`,
    payload,
  }));
  const page = await read(PAGE);
  for (const mark of ["U+202E", "U+0007", "U+200B"]) {
    assertStringIncludes(page, `<mark>${mark}</mark>`);
  }
  assertStringIncludes(page, "x\\u202ey");
  assertEquals(HIDDEN.test(page.replaceAll("\n", "")), false);
  assert(page.length < 1_000_000, `${page.length}`);
  assertStringIncludes(page, "Only the beginning is shown");
  assertStringIncludes(page, `/search?q=${encodeURIComponent(longest)}"`);
  assertEquals(await read(`/failure/payload?${PAGE.split("?")[1]}`), payload);
});

Deno.test("the overview counts up to a thousand failures in one request, and hours by outcome", async () => {
  for (const more of [0, 1]) {
    const { read, calls } = openConsole(({ path }) => {
      if (path.includes("billing_health")) return Response.json([{}]);
      if (path.includes("per_hour")) {
        return Response.json([
          { hour: "2026-11-22T10:00:00+00:00", outcome: "applied", events: 7 },
          { hour: "2026-11-22T10:00:00+00:00", outcome: "applied", events: 3 },
          { hour: "2026-11-19T10:00:00+00:00", outcome: "stale", events: 9 },
        ]);
      }
      const one = path.includes("error_code=eq.");
      const rows = Array(1_000).fill({ error_code: "event_invalid" });
      const range = one ? "0-0/501" : `0-999/${1_000 + more}`;
      const headers = { "content-range": range };
      return Response.json(one ? [{}] : rows, { headers });
    });
    const page = await read("/");
    assertStringIncludes(page, more === 0 ? ">1,000</td>" : ">501</td>");
    assertEquals(calls.length > 10, more === 1, `${calls.length}`);
    const hours = await read("/hours");
    assertStringIncludes(
      hours,
      '2026-11-22 10:00</td><td data-label="applied">10<',
    );
    assertEquals(hours.includes(">9<"), false, "older than three days");
    assertStringIncludes(await read("/hours.svg"), ">10</text>");
  }
});

for (
  const [url, status, body, expected, todo] of [
    ["", 401, { message: "x" }, "refuses the secret key", "deno task start"],
    ["", 404, { code: "PGRST202" }, "PGRST202", "deno task start"],
    ["https://abc.supabase.co", 540, "paused", "answered 540", "Restore"],
    ["https://abc.supabase.co", 200, "<html>", "answered 200", "Check the URL"],
    ["https://abc.supabase.co", 500, { code: "57014" }, "too long", "load"],
    [
      "https://abc.supabase.co",
      406,
      { code: "PGRST106" },
      "does not expose schema public",
      "Expose it (dashboard",
    ],
    [
      "https://abc.supabase.co",
      401,
      { code: "42501", message: "permission denied" },
      "permission denied",
      "sb_secret_",
    ],
  ] as const
) {
  Deno.test(`a page says what to do about ${status}, ${expected}`, async () => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const { request } = openConsole(
      () => new Response(text, { status }),
      url || undefined,
    );
    const response = await request("/failures");
    assertEquals(response.status, 502);
    const page = await response.text();
    assertStringIncludes(page, expected);
    assertStringIncludes(page, todo);
  });
}

Deno.test("a page says so if the project is away or slow, or if the console fails", async () => {
  let fault: () => Response = () => {
    throw new TypeError("connection refused");
  };
  const { read } = openConsole(() => fault());
  for (const path of ["/", "/hours", "/failures", PAGE, "/search?q=x"]) {
    assertStringIncludes(await read(path), "Cannot reach http://127.0.0.1");
  }
  fault = () => {
    throw new DOMException("Signal timed out.", "TimeoutError");
  };
  assertStringIncludes(await read(PAGE), "did not answer within 10 seconds");
  fault = () =>
    Response.json([{ ...FAILURE, payload_encoding: "text", payload: "<b>" }]);
  const printed = mock.method(console, "error", () => {});
  try {
    const page = await read(REPAIR);
    assertStringIncludes(page, "The console itself failed.");
    assertEquals(/SyntaxError|repair\.tsx/.test(page), false);
    assert(printed.mock.callCount() > 1);
  } finally {
    printed.mock.restore();
  }
});

Deno.test("a page of the list that is gone leads to the first one", async () => {
  const { request } = openConsole(() =>
    Response.json({ code: "PGRST103" }, { status: 416 })
  );
  const response = await request("/failures?code=apply_failed&page=9");
  assertEquals(response.headers.get("location"), "/failures?code=apply_failed");
});

Deno.test("a filter becomes conditions, and the arguments of a retry", async () => {
  const { read, act, calls } = openConsole();
  const filter = {
    ...{ code: " event_invalid ", type: "x" },
    ...{ since: "2026-11-22T10:00", until: "tomorrow" },
  };
  await read(`/failures?${new URLSearchParams(filter)}`);
  const query = new URLSearchParams(calls[0]?.path.split("?")[1]);
  assertEquals(
    ["resolved_at", "error_code", "type", "last_failed_at", "and"]
      .map((name) => query.get(name)),
    [
      ...["is.null", "eq.event_invalid", "eq.x"],
      ...["gte.2026-11-22T10:00:00.000Z", null],
    ],
  );
  const page = await act("/failures/retry", filter);
  assertStringIncludes(page, "Retry requested: 1.");
  assertEquals(JSON.parse(calls.find(({ body }) => body)?.body ?? ""), {
    of_type: "x",
    of_error_code: "event_invalid",
    failed_since: "2026-11-22T10:00:00.000Z",
  });
});

for (
  const [what, answer, changes, expected] of [
    ["is claimed", "", { retry_lease_id: "6f1c" }, "has locked its record"],
    ["is not claimed", "", {}, "takes it at its next run."],
    [
      "failed again",
      "",
      { retry_requested_at: null },
      "it failed again: event",
    ],
    [
      "is applied",
      "",
      { resolved_at: "x", resolution: "applied" },
      "Retried: applied",
    ],
    ["was resolved before", "It is already resolved.", {}, "already resolved."],
  ] as const
) {
  Deno.test(`a retry of what ${what} says so, on its page alone`, async () => {
    const { read, send } = openConsole(
      answering(answer || "Retry requested: 1. The worker is on", {
        retry_requested_at: FAILURE.last_failed_at,
        ...changes,
      }),
    );
    await send("/failure/retry", KEY);
    // As if the operator had opened another page while the action ran.
    assertEquals((await read("/failures")).includes(expected), false);
    assertStringIncludes(await read(PAGE), expected);
  });
}

/** Opens the form of a repair; returns what sends it with a text. */
async function openRepair(
  app: ReturnType<typeof openConsole>,
  event = "evt_1",
) {
  const page = await app.read(`/failure/repair?provider=a&event=${event}`);
  const hash = /name="hash" value="([^"]+)"/.exec(page)?.[1] ?? "";
  return (text: string) =>
    app.send("/failure/repair", { provider: "a", event, text, hash });
}

Deno.test("a repair sends what was typed, for the version that was read", async () => {
  for (const event_id of ["evt_1", "sha256:00"]) {
    const app = openConsole(answering("", { event_id }));
    const repair = await openRepair(app, event_id);
    const answer = await repair(DELETION);
    assertEquals(answer.status, 303);
    const [patch, ...more] = app.calls.filter(({ body }) => body);
    assertEquals([patch?.method, more], ["PATCH", []]);
    assertEquals(patch?.body, `{"payload":${DELETION}}`);
    assertStringIncludes(patch?.path ?? "", "version=eq.741&columns=payload");
    assertEquals(patch?.headers.get("content-profile"), "public");
    const page = await app.read(answer.headers.get("location")!);
    assertStringIncludes(page, "Now retry the event");
  }
});

for (
  const [what, text, fault] of [
    ["not JSON", '{"id": ', "This is not JSON"],
    ["two values", '{}, "resolved_at": "now"', "This is not JSON"],
    ["another event", DELETION.replace("evt_1", "evt_2"), "must be evt_1"],
    ["not valid", DELETION.replace('"sub_1"', '""'), "data.object.id"],
    ["without effect", '{"id":"evt_1","type":"charge.failed"}', "no effect"],
    ["thin", '{"id":"evt_1","type":"v1.billing.meter.error"}', "thin event"],
  ] as const
) {
  Deno.test(`a repair that is ${what} is not saved, and the text stays`, async () => {
    const app = openConsole();
    const answer = await (await openRepair(app))(text);
    assertEquals(answer.status, 422);
    const page = await answer.text();
    assertStringIncludes(page, fault);
    assertStringIncludes(page, text.replaceAll('"', "&quot;"));
    assertEquals(app.calls.filter(({ body }) => body), []);
  });
}

Deno.test("a repair that was not saved, or perhaps, says so and keeps the text", async () => {
  for (
    const [expected, respond] of [
      ["changed at the same moment", () => Response.json([])],
      ["Perhaps not saved", () => new Response("<html>")],
      ["Perhaps not saved", () => Promise.reject(new TypeError("reset"))],
    ] as [string, () => Response][]
  ) {
    const app = openConsole(({ method }) =>
      method === "PATCH" ? respond() : Response.json([FAILURE])
    );
    const answer = await (await openRepair(app))(DELETION);
    assertEquals(answer.status, 422);
    const page = await answer.text();
    assertStringIncludes(page, expected);
    assertStringIncludes(page, "12345678901234567890");
    assertEquals(
      page.includes("Nothing was changed"),
      !/Perhaps/.test(expected),
    );
  }
  const app = openConsole();
  const sent = { ...KEY, text: DELETION, hash: "of another payload" };
  const page = await (await app.send("/failure/repair", sent)).text();
  assertStringIncludes(page, "Somebody has changed the payload");
});

Deno.test("the repair of what is resolved or has no payload leads to its page", async () => {
  for (const changes of [{ resolved_at: "x" }, { payload: null }]) {
    const { request } = openConsole(answering("", changes));
    const answer = await request(REPAIR);
    assertEquals([answer.status, answer.headers.get("location")], [303, PAGE]);
  }
});

Deno.test("every request names the schema, and a window or function of ours", async () => {
  const { read, act, calls } = openConsole();
  for (
    const path of ["/", PAGE, "/notifications", "/search?q=%00x", "/hours"]
  ) {
    await read(path);
  }
  for (
    const path of ["/failure/retry", "/failure/resolve", "/failure/reopen"]
  ) {
    await act(path);
  }
  await act("/notifications/send", {});
  const rest = calls.filter(({ path }) => path.startsWith("/rest/v1/"));
  assert(rest.length > 15, `${rest.length}`);
  for (const { method, path, headers } of rest) {
    const name = method === "GET" ? "accept-profile" : "content-profile";
    assertEquals(headers.get(name), "public", path);
    assert(/^\/rest\/v1\/(?:rpc\/)?billing_[^%]/.test(path), path);
    assertEquals(path.includes("%00"), false, "no ID has a NUL");
  }
});
