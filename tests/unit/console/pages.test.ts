/** What the pages show, and what the actions send. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { mock } from "node:test";
import { compareLines, prettyJson } from "../../../scripts/console/payload.tsx";
import { distance, HIDDEN, sqlString } from "../../../scripts/console/ui.tsx";
import { answering, KEY, openConsole, PAGE, ROW } from "./console_app.ts";

const HOSTILE = `"'><script>alert(1)</script><img src=x onerror=alert(2)>`;
const DELETION =
  '{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1","n":12345678901234567890,"n":1.10}}}';

Deno.test("every value from outside is escaped on every page, also what Postgres says", async () => {
  const q = encodeURIComponent(HOSTILE);
  const texts = Object.entries(ROW).filter(([, value]) =>
    typeof value === "string"
  ).map(([name]) => [name, HOSTILE]);
  const payload = JSON.stringify({ [HOSTILE]: `</textarea></pre>${HOSTILE}` });
  const row = { ...Object.fromEntries(texts), payload, original: payload };
  const error = { code: "P0001", message: HOSTILE, hint: HOSTILE };
  for (const resolved_at of [null, ROW.last_failed_at]) {
    const { read, send } = openConsole((call) =>
      call.path.includes("/rpc/")
        ? Response.json(error, { status: 400 })
        : answering("", { ...row, resolved_at, resolution: HOSTILE })(call)
    );
    const key = { provider: HOSTILE, event: HOSTILE };
    const draft = { ...key, text: `</textarea>${HOSTILE}`, hash: HOSTILE };
    const acted = await send("/failure/resolve", key);
    const paths = [
      ...[acted.headers.get("location")!, "/failures", "/notifications"],
      ...[`/failures?code=${q}`, `/failures?type=${q}`, `/search?q=${q}`],
    ];
    const pages = [await (await send("/failure/repair", draft)).text()];
    for (const path of paths) pages.push(await read(path));
    for (const page of pages) {
      assertStringIncludes(page, "&lt;script&gt;alert(1)");
      assertEquals(/<script|<img src=x/.test(page), false);
      const [opened, closed] = ["<textarea", "</textarea>"]
        .map((tag) => page.split(tag).length);
      assertEquals(opened, closed);
    }
  }
});

Deno.test("hidden characters are shown by their codes, and long texts are cut", async () => {
  const payload = JSON.stringify({ a: `x\u202ey${"<b>".repeat(400_000)}` });
  const longest = "\u{1d4b3}".repeat(255); // two units of UTF-16 each
  const { read } = openConsole(answering("", {
    error: "abc\u202edef\u0007\u200b",
    event_id: "evt\u202e",
    type: "\u202e".repeat(400_000),
    subscription_id: longest,
    account_id: `${longest}x`,
    resolved_at: ROW.last_failed_at,
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
  assertEquals(
    page.includes(`/search?q=${encodeURIComponent(longest)}x`),
    false,
  );
});

Deno.test("prettyJson() formats as JSON.stringify does, and keeps numbers", () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
    const pretty = prettyJson(JSON.stringify(value));
    assertEquals(JSON.parse(pretty), JSON.parse(JSON.stringify(value)));
    assertEquals(pretty, prettyJson(pretty));
  }));
  assertEquals(
    prettyJson('{"a":12345678901234567890,"b":[1e400,1.10]}'),
    '{\n  "a": 12345678901234567890,\n  "b": [\n    1e400,\n    1.10\n  ]\n}',
  );
  const deep = "[".repeat(50_000) + "]".repeat(50_000);
  assertEquals(prettyJson(deep), deep);
  assertEquals(prettyJson('"\u{e0001}\u200b"'), '"\\udb40\\udc01\\u200b"');
});

Deno.test("texts: SQL that can be pasted, what a repair changed, and distances", () => {
  for (
    const [text, sql] of [
      ["it's", "'it''s'"],
      ["a\nb", "'a\nb'"],
      ["a\\b'", "e'a\\\\b'''"],
      ["a\u202e\tb", "e'a\\U0000202e\\U00000009b'"],
    ] as const
  ) assertEquals(sqlString(text), sql);

  const before = Array.from({ length: 20 }, (_, i) => `${i}`);
  assertEquals(
    compareLines(before.join("\n"), before.with(10, "x").join("\n")).join(),
    "…, 6, 7, 8, 9,-10,+x, 11, 12, 13, 14,…",
  );
  for (
    const [seconds, expected] of [
      ...[[-5, "5 s ago"], [-180, "3 min ago"], [-7_200, "2 h ago"]],
      ...[[-300_000, "3 days ago"], [60, "in 1 min"]],
    ] as const
  ) assertEquals(distance(seconds * 1000, 0), expected);
});

Deno.test("hours are counted by outcome, and codes by open failures", async () => {
  mock.timers.enable({
    apis: ["Date"],
    now: Date.parse("2026-11-22T10:20:00Z"),
  });
  try {
    const hour = "2026-11-22T10:00:00+00:00";
    const { read } = openConsole(({ path }) => {
      if (path.includes("billing_health")) return Response.json([{}]);
      const count = path.includes("eq.apply_failed") ? 1501 : 0;
      const headers = { "content-range": `0-0/${count}` };
      return path.includes("per_hour")
        ? Response.json([
          { hour, outcome: "applied", events: 997 },
          { hour, outcome: "applied", events: 3 },
          { hour, outcome: "failed", events: 1 },
          { hour: "2026-11-19T10:00:00Z", outcome: "stale", events: 9 },
        ])
        : Response.json([], { headers });
    });
    assertStringIncludes(await read("/"), ">1,501</td>");
    const hours = await read("/hours");
    const cell = '2026-11-22 10:00</td><td data-label="applied">1,000<';
    assertStringIncludes(hours, cell);
    assertEquals(hours.includes(">9<"), false, "older than three days");
    const chart = await read("/hours.svg");
    assertStringIncludes(chart, ">1,001</text>");
    // One failure beside a thousand events is visible.
    assert(/y="-?\d+" width="8" height="2"/.test(chart));
  } finally {
    mock.timers.reset();
  }
});

Deno.test("a page says what to do about an answer that is none", async () => {
  const hosted = "https://abc.supabase.co";
  const local = "http://127.0.0.1:54321";
  for (
    const [url, status, body, expected, todo] of [
      [local, 401, { message: "x" }, "refuses the secret key", "task start"],
      [local, 404, { code: "PGRST202" }, "PGRST202", "task start"],
      [hosted, 540, "paused", "answered 540", "Restore"],
      [hosted, 200, "<html>", "answered 200", "Check the URL"],
      [hosted, 500, { code: "57014" }, "too long", "load"],
      [hosted, 401, { code: "42501" }, "42501", "sb_secret_"],
      [local, 0, new TypeError("refused"), `Cannot reach ${local}`, "start"],
      [local, 0, new Error("timed out"), "answer within 10 seconds", "load"],
      [local, 200, [{ ...ROW, payload: "{" }], "console itself failed", ""],
    ] as const
  ) {
    const printed = mock.method(console, "error", () => {});
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const { request } = openConsole(() => {
      if (body instanceof Error) throw body;
      return new Response(text, { status });
    }, url);
    const response = await request(PAGE);
    printed.mock.restore();
    assertEquals(response.status, 502);
    const page = await response.text();
    assertStringIncludes(page, expected);
    assertStringIncludes(page, todo);
    assertEquals(/SyntaxError|payload\.tsx/.test(page), false);
  }
});

Deno.test("a filter becomes conditions, and the arguments of a retry", async () => {
  const { read, send, calls } = openConsole();
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
  await send("/failures/retry", filter);
  assertEquals(JSON.parse(calls.find(({ body }) => body)?.body ?? ""), {
    of_type: "x",
    of_error_code: "event_invalid",
    failed_since: "2026-11-22T10:00:00.000Z",
  });
  await read("/failures?state=resolved");
  assertStringIncludes(calls.at(-1)!.path, "resolved_at=not.is.null");
  await read("/search?q=%00x");
  for (const { method, path, headers } of calls) {
    assertEquals(path.includes("%00"), false, "no ID has a NUL");
    const name = method === "GET" ? "accept-profile" : "content-profile";
    if (path.startsWith("/rest/")) assertEquals(headers.get(name), "public");
  }
  const gone = openConsole(() =>
    Response.json({ code: "PGRST103" }, { status: 416 })
  );
  const response = await gone.request("/failures?code=x&page=9");
  assertEquals(response.headers.get("location"), "/failures?code=x");
});

Deno.test("a retry says what came of it, on the failure's page alone", async () => {
  const requested = { retry_requested_at: ROW.last_failed_at };
  for (
    const [expected, changes, answer = "Retry requested: 1. The worker is"] of [
      ["has locked its record", { ...requested, retry_lease_id: "6f1c" }],
      ["takes it at its next run.", requested],
      ["it failed again: event_invalid", {}],
      ["Retried: applied", { resolved_at: "x", resolution: "applied" }],
      ["already resolved.", requested, "It is already resolved."],
    ] as [string, object, string?][]
  ) {
    const { read, send } = openConsole(answering(answer, changes));
    await send("/failure/retry", KEY);
    // As if the operator had opened another page while the action ran.
    assertEquals((await read("/failures")).includes(expected), false);
    assertStringIncludes(await read(PAGE), expected);
    assertEquals((await read(PAGE)).includes(expected), false, "once");
  }
});

Deno.test("what was received is downloaded as it is, and only what was resolved by hand is opened again", async () => {
  const { read, send, calls } = openConsole(answering("", { original: "1" }));
  const path = PAGE.replace("?", "/payload?");
  assertEquals([await read(path), await read(`${path}&which=original`)], [
    ROW.payload,
    "1",
  ]);
  await send("/failure/reopen", KEY);
  const patch = calls.find(({ method }) => method === "PATCH");
  assertStringIncludes(patch?.path ?? "", "resolution=eq.by+hand");
});

/** Opens a failure's page, and sends a repair of it. */
async function repair(
  app: ReturnType<typeof openConsole>,
  text: string,
  fields: Record<string, string> = {},
) {
  const hash = /name="hash" value="([^"]+)"/.exec(await app.read(PAGE))?.[1];
  const sent = { ...KEY, text, hash: hash ?? "", ...fields };
  return await app.send("/failure/repair", sent);
}

Deno.test("a repair sends what was typed, for the version that was read", async () => {
  for (const event_id of ["evt_1", "sha256:00"]) {
    const app = openConsole(answering("", { event_id }));
    assertEquals((await repair(app, DELETION)).status, 303);
    const [patch, ...more] = app.calls.filter(({ body }) => body);
    assertEquals([patch?.method, more], ["PATCH", []]);
    assertEquals(patch?.body, `{"payload":${DELETION}}`);
    assertStringIncludes(patch?.path ?? "", "version=eq.741&columns=payload");
  }
});

Deno.test("a repair that is not saved says why, and keeps the text", async () => {
  const perhaps = "Perhaps it was done";
  for (
    const [text, expected, respond, hash] of [
      ['{"id": ', "This is not JSON"],
      ['{}, "resolved_at": "now"', "This is not JSON"],
      [DELETION.replace("evt_1", "evt_2"), "must be evt_1"],
      [DELETION.replace('"sub_1"', '""'), "data.object.id"],
      ['{"id":"evt_1","type":"charge.failed"}', "no effect"],
      ['{"id":"evt_1","type":"v1.billing.meter.error"}', "thin event"],
      [DELETION, "Somebody has changed", undefined, "of another payload"],
      [DELETION, "changed at the same moment", () => Response.json([])],
      [DELETION, perhaps, () => new Response("<html>")],
      [DELETION, perhaps, () => Promise.reject(new TypeError("reset"))],
    ] as [string, string, (() => Response)?, string?][]
  ) {
    const app = openConsole((call) =>
      call.method === "PATCH" && respond ? respond() : answering("")(call)
    );
    const answer = await repair(app, text, hash ? { hash } : {});
    assertEquals(answer.status, 422);
    const page = await answer.text();
    assertStringIncludes(page, expected);
    assertStringIncludes(page, text.replaceAll('"', "&quot;"));
    assertEquals(page.includes(perhaps), expected === perhaps);
    const patches = app.calls.filter(({ method }) => method === "PATCH");
    assertEquals(patches.length, respond ? 1 : 0);
  }
});
