/**
 * The console in memory, in front of a stand-in for the database's API: who gets
 * in, what no answer may lack, and what the actions send. tests/console has it in
 * a browser.
 */
import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { mock } from "node:test";
import { UsageError } from "../../scripts/common/cli.ts";
import { parseConsoleArguments } from "../../scripts/console.ts";
import { createConsole, createSession } from "../../scripts/console/app.tsx";
import { compareLines, prettyJson } from "../../scripts/console/payload.tsx";
import { openProject } from "../../scripts/console/project.ts";
import { distance, HIDDEN, sqlString } from "../../scripts/console/ui.tsx";
import { at } from "../../supabase/functions/_shared/billing/events/fields.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/signatures/local_stack.ts";
import { edited } from "../support/edited.ts";

const HOST = "127.0.0.1:54340";
const LOCAL_URL = "http://127.0.0.1:54321";
const HOSTED_URL = "https://abc.supabase.co";
const PAGE = "/failure?provider=a&event=evt_1";
const KEY = { provider: "a", event: "evt_1" };
const COOKIE = "billing_console_54340";

const ROW = {
  ...{ provider: "a", event_id: "evt_1", id: "7", status: "dead" },
  type: "customer.subscription.created",
  ...{ subscription_id: "sub_1", account_id: null, version: "741" },
  ...{ error_code: "event_invalid", error: "No account", attempts: 1 },
  last_failed_at: "2026-11-22T00:00:00+00:00",
  ...{ retry_requested_at: null, resolved_at: null },
  ...{ kind: null, next_retry_at: null },
  ...{ resolution: null, resolution_note: null, resolved_by: null },
  ...{ occurred_at: null, created_at: null, next_attempt_at: null },
  ...{ payload: '{"id": "evt_1"}', original: null, payload_encoding: "json" },
};

function answering(text: string, changes: object = {}) {
  const headers = { "content-range": "0-0/1" };
  return ({ url }: Request) =>
    url.includes("/rpc/")
      ? Response.json(text)
      : Response.json([{ ...ROW, ...changes }], { headers });
}

function openConsole(
  answer: (call: Request) => Response | Promise<Response> = answering(
    "Retry requested: 1.",
  ),
  projectUrl = LOCAL_URL,
) {
  const session = createSession();
  /** The requests that reached the stand-in, each with its text. */
  const calls: (Request & { sent: string })[] = [];
  const project = openProject({ projectUrl, secretKey: "sb_secret_test" }, {
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const sent = await request.clone().text();
      calls.push(Object.assign(request, { sent }));
      return await answer(request);
    },
  });
  const app = createConsole({ project, session, host: () => HOST });

  /** Sends a request; `headers` replaces what a browser that is let in sends. */
  async function request(path: string, init: RequestInit = {}) {
    const cookie = `${COOKIE}=${session.cookie}`;
    const headers = { host: HOST, cookie, ...init.headers };
    return await app.request(`http://${HOST}${path}`, { ...init, headers });
  }
  const read = async (path: string) => await (await request(path)).text();

  /** Sends a form as a page of the console does, but for what is given. */
  function send(path: string, fields: Record<string, string>, init = {}) {
    const headers = { origin: `http://${HOST}` };
    const body = new URLSearchParams(fields);
    return request(path, { method: "POST", headers, body, ...init });
  }

  return { session, calls, request, read, send };
}

Deno.test("parseConsoleArguments() takes a port, and opens a browser unless told", () => {
  const parse = (...args: string[]) =>
    parseConsoleArguments(args, { env: {}, warn() {} });
  const usual = { projectUrl: LOCAL_URL, secretKey: LOCAL_SECRET_KEY };
  assertEquals(parse(), { ...usual, port: 54340, opensBrowser: true });
  const { port, opensBrowser } = parse("--no-open", "--port", "5");
  assertEquals([port, opensBrowser], [5, false]);
  for (const port of ["65536", "x"]) {
    assertThrows(() => parse("--port", port), UsageError);
  }
});

Deno.test("a request under another host, or without the session's cookie, sees nothing of the project", async () => {
  const { request, session, calls } = openConsole();
  for (
    const host of [
      ...["evil.example:54340", "localhost:54340", "127.0.0.1", ""],
      ...["127.0.0.1:543401", "127.0.0.1:54340.evil.example"],
    ]
  ) {
    for (const path of ["/failures", "/style.css"]) {
      const { status } = await request(path, { headers: { host } });
      assertEquals(status, 421, host);
    }
  }
  for (
    const [path, cookie] of [
      ...["/failures", "/?token=x", "/?token="].map((path) =>
        [path, ""] as const
      ),
      [`/failures?token=${session.token}`, ""],
      ["/failures", `${COOKIE}=x`],
      ["/", `${COOKIE}=${session.token}`],
      ["/", `billing_console_54341=${session.cookie}`],
    ] as const
  ) {
    const response = await request(path, { headers: { cookie } });
    assertEquals(response.status, 401, `${path} ${cookie}`);
    assertEquals((await response.text()).includes("54321"), false);
  }
  assertEquals(calls, []);
});

Deno.test("the link lets in one browser, once", async () => {
  const { request, session } = openConsole();
  const enter = (init: RequestInit) =>
    request(`/?token=${session.token}`, { headers: { cookie: "" }, ...init });
  assertEquals((await enter({ method: "HEAD" })).status, 401, "a preview");
  const first = await enter({});
  assertStringIncludes(await first.text(), 'content="0; url=/"');
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
  const { send, calls } = openConsole();
  const origins = [
    ...["https://evil.example", "http://127.0.0.1:3000", "null", ""],
    ...[`http://${HOST}1`, `https://${HOST}`],
  ].map((origin) => ({ headers: { origin } }));
  const stranger = { headers: { origin: `http://${HOST}`, cookie: "" } };
  for (
    const path of [
      ...["/failure/retry", "/failure/resolve", "/failure/repair"],
      ...["/failure/reopen", "/failures/retry", "/notifications/send"],
    ]
  ) {
    for (const init of [...origins, { method: "DELETE", ...origins[3] }]) {
      assertEquals((await send(path, KEY, init)).status, 403, path);
    }
    assertEquals((await send(path, KEY, stranger)).status, 401, path);
  }
  assertEquals(calls, []);
});

const HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

Deno.test("every answer has the headers, and leads to this console alone", async () => {
  const { request, send, calls } = openConsole(({ url }) => {
    if (url.includes("billing_health")) throw new TypeError("refused");
    return Response.json(url.includes("/rpc/") ? "" : [ROW]);
  });
  const headers = { cookie: "" };
  const tooLong = { ...KEY, text: "x".repeat(17 * 1024 * 1024) };
  for (
    const [status, response] of [
      [200, await request(PAGE)],
      [200, await request("/style.css", { headers })],
      [303, await send("/failure/retry", KEY)],
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
      .map(([, target = ""]) => new URL(target, `http://${HOST}/`));
    const isOwn = ({ host, protocol }: URL) =>
      host === HOST || protocol === "data:";
    assertEquals([...targets].filter((target) => !isOwn(target)), []);
    assertEquals(/sb_secret|@import/.test(text), false);
  }
  assert(calls.length > 3);
  for (const { headers, redirect } of calls) {
    assertEquals(headers.get("apikey"), "sb_secret_test");
    assertEquals(redirect, "manual");
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
  const found = `/search?q=${encodeURIComponent(longest)}`;
  assertStringIncludes(page, `${found}"`);
  assertEquals(page.includes(`${found}x`), false);
});

Deno.test("the first page does not say that all is well while notifications wait", async () => {
  const waiting = { notifications_pending: 2 };
  const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
  for (
    const [ms, says] of [
      [60_000, "Nothing is failing"],
      [600_000, "2 notifications waiting"],
    ] as const
  ) {
    const oldest = { oldest_pending_notification: ago(ms) };
    const { read } = openConsole(({ url }) => {
      const rows = url.includes("health") ? [{ ...waiting, ...oldest }] : [];
      return Response.json(rows);
    });
    assertStringIncludes(await read("/"), `<h1>${says}</h1>`);
  }
});

const RECORD = {
  ...{ id: "sub_1", account_id: "acc_1", provider: "a", items: [] },
  ...{ status: "active", provider_status: "active", cancel_at: null },
  ...{ canceled_at: null, paused: null, paused_until: null },
  ...{ past_due_since: null, paid_until: "infinity" },
};
const PAST = "2026-01-31T00:00:00+00:00";
const NEXT = "2999-01-31T00:00:00+00:00";
const LATE = { provider_status: "past_due", paid_until: PAST };
const NO = { paid_until: null };

Deno.test("a search says first whether the account has access, until when, and why", async () => {
  for (
    const [isGiven, records, ...expected] of [
      [true, [{}], "yes, with no end planned", "sub_1: active"],
      [true, [{ cancel_at: NEXT }], "yes, until 2999-01-31 00:00:00 UTC"],
      [true, [{ cancel_at: NEXT }, {}], "yes, with no end planned"],
      [true, [NO, { id: "sub_2" }], "yes, with no end planned", "sub_2: activ"],
      [true, [LATE], "yes, until the grace", "sub_1: past due since 2026-01"],
      [
        false,
        [LATE],
        "no",
        "past due since 2026-01",
        "the grace period is over",
      ],
      [
        false,
        [{ ...NO, status: "canceled", canceled_at: PAST }],
        "canceled 20",
      ],
      [
        false,
        [{ ...NO, cancel_at: PAST }],
        "no",
        "ended as planned 2026-01-31",
      ],
      [false, [{ ...NO, paused: "void" }], "no", "sub_1: paused"],
      [false, [{ ...NO, provider_status: "unpaid" }], "no", "sub_1: unpaid"],
      [false, [], "no", "No subscription of this account is recorded."],
    ] as const
  ) {
    const rows = records.map((changes) => ({ ...RECORD, ...changes }));
    const { read, calls } = openConsole(({ url }) => {
      if (url.includes("/rpc/")) return Response.json(isGiven);
      const isOfRecords = /subscriptions|records.*account_id=/.test(url);
      const isOfFailures = /failed_events.*account_id=eq/.test(url);
      const failures = isOfFailures ? [{ ...ROW, account_id: "acc_1" }] : [];
      return Response.json(isOfRecords ? rows : failures);
    });
    const page = (await read("/search?q=acc_1")).replace(/.*<main/s, "")
      .replaceAll(/<[^>]+>/g, "");
    const answer = page.indexOf("Has access: ");
    assert(answer > 0 && answer < page.indexOf("Failures"), page);
    for (const text of expected) {
      assert(page.indexOf(text, answer) > answer, `${text}: ${page}`);
    }
    const asked = calls.filter(({ url }) => url.includes("/rpc/"));
    assertEquals(asked.map(({ sent }) => sent), ['{"account_id":"acc_1"}']);
  }
});

Deno.test("texts: formatted JSON, SQL that can be pasted, what a repair changed, and distances", () => {
  const deep = "[".repeat(50_000) + "]".repeat(50_000);
  for (
    const [json, pretty] of [
      ['{"a":12345678901234567890}', '{\n  "a": 12345678901234567890\n}'],
      ["[1e400,1.10]", "[\n  1e400,\n  1.10\n]"],
      ['"\u{e0001}\u200b"', '"\\udb40\\udc01\\u200b"'],
      [deep, deep],
    ] as const
  ) assertEquals(prettyJson(json), pretty);
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
      [-5, "5 s ago"],
      [-7_200, "2 h ago"],
      [-300_000, "3 days ago"],
      [60, "in 1 min"],
    ] as const
  ) assertEquals(distance(seconds * 1000, 0), expected);
});

Deno.test("a page says what to do about an answer that is none", async () => {
  for (
    const [url, status, body, expected, todo] of [
      [LOCAL_URL, 404, { code: "PGRST202" }, "PGRST202", "task start"],
      [HOSTED_URL, 401, { code: "42501" }, "42501", "sb_secret_"],
      [HOSTED_URL, 540, "paused", "answered 540", "Restore"],
      [HOSTED_URL, 200, "<html>", "answered 200", "Check that the URL"],
      [HOSTED_URL, 500, { code: "57014" }, "too long", "docs/operate.md"],
      [LOCAL_URL, 0, new TypeError("refused"), "Cannot reach http", "start"],
      [LOCAL_URL, 200, [{ ...ROW, payload: "{" }], "console itself failed", ""],
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
  const { read, send, calls } = openConsole(
    answering("Retry requested: 1.", { type: "charge.failed" }),
  );
  const filter = { code: "event_invalid", type: "x" };
  const list = await read(`/failures?${new URLSearchParams(filter)}`);
  // What is chosen, any, and what the list has: no code that is never stored.
  const offered = list.matchAll(/<option value="([^"]*)"/g).map(([, it]) => it);
  assertEquals([...offered], [
    ...["open", "resolved", "event_invalid", "", "x", "", "charge.failed"],
  ]);
  const query = new URL(calls[0]!.url).searchParams;
  const found = ["resolved_at", "error_code", "type"].map((it) =>
    query.get(it)
  );
  assertEquals(found, ["is.null", "eq.event_invalid", "eq.x"]);
  await send("/failures/retry", filter);
  assertEquals(JSON.parse(calls.find(({ sent }) => sent)?.sent ?? ""), {
    of_type: "x",
    of_error_code: "event_invalid",
  });
  await read("/search?q=%00x");
  await send("/failure/reopen", KEY);
  const { url, sent } = calls.findLast(({ sent }) => sent)!;
  assertStringIncludes(url, "/rpc/billing_reopen_failed_event");
  const named = { event_id: ROW.event_id, of_provider: ROW.provider };
  assertEquals(JSON.parse(sent), named);
  for (const { method, url, headers } of calls) {
    assertEquals(url.includes("%00"), false, "no ID has a NUL");
    const name = method === "GET" ? "accept-profile" : "content-profile";
    if (url.includes("/rest/")) assertEquals(headers.get(name), "public");
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
    const [expected, changes] of [
      ["retries it in its next run.", requested],
      ["it failed again: event_invalid", {}],
    ] as [string, object][]
  ) {
    const answer = "Retry requested: 1. The worker is on its way.";
    const { read, send } = openConsole(answering(answer, changes));
    await send("/failure/retry", KEY);
    // As if the operator had opened another page while the action ran.
    assertEquals((await read("/failures")).includes(expected), false);
    assertStringIncludes(await read(PAGE), expected);
    assertEquals((await read(PAGE)).includes(expected), false, "once");
  }
});

Deno.test("a failure says what comes next, and to whom it is left", async () => {
  const minutesAgo = (minutes: number) =>
    new Date(Date.now() - minutes * 60_000).toISOString();
  const resolved = { resolved_at: ROW.last_failed_at, resolution: "applied" };
  for (
    const [expected, changes] of [
      ["open, waits for a person", {}],
      // Nobody runs the schedule.
      ["open, retry due 9 min ago", { next_retry_at: minutesAgo(9.5) }],
      ["retry requested", { retry_requested_at: minutesAgo(0) }],
      ["resolved: <bdi>applied", resolved],
    ] as [string, object][]
  ) {
    const page = await openConsole(answering("", changes)).read(PAGE);
    assertStringIncludes(page, `>${expected}<`);
    assertEquals(page.includes("<blockquote>"), changes !== resolved);
  }
  // What had no effect can be opened again.
  for (
    const [resolution, isLeft] of [
      ...[["applied", false], ["duplicate", false], ["stale", false]],
      ...[["ignored", true], ["by hand", true]],
    ] as [string, boolean][]
  ) {
    const changes = { ...resolved, resolution };
    const page = await openConsole(answering("", changes)).read(PAGE);
    assertEquals(page.includes("Open again"), isLeft, resolution);
    assertEquals(page.includes("Nothing is left to do"), !isLeft, resolution);
  }
});

const failing = (error_code: string) => ({
  ...{ outcome: "failed", error_code, error: `${error_code}: of a test` },
});
const DELETION =
  '{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1","n":12345678901234567890,"n":1.10}}}';

const FURTHER = '{"id":"evt_1","type":"charge.failed","n":1.10}';
const LISTED = { settings: { handledTypes: ["charge.failed"] } };
const NOTICE =
  '{"id":"evt_1","type":"customer.subscription.trial_will_end","data":{"object":{"id":"sub_1"}}}';
const TELLS = { settings: { notify: ["trial_ending"] } };
const MIXED =
  '{"id":"evt_1","type":"customer.subscription.updated","data":{"object":{"id":"sub_1","status":"active","items":{"data":[{"price":{"id":"p"},"current_period_end":"x"},{"price":{"id":"q","recurring":{"usage_type":"licensed"}},"current_period_end":1800000000}]}}}}';
const LICENSED = { settings: { planItem: "licensed" } };

Deno.test("a repair is sent as it was typed, or says why it is not saved and keeps the text", async () => {
  const perhaps = "The change may have been made";
  const saved = () => Response.json([ROW]);
  for (
    const [text, expected, respond, { old = "", worker = {}, ...changes } = {}]
      of [
        [DELETION, "", saved],
        [DELETION, "", saved, { event_id: "sha256:00" }],
        ['{}, "resolved_at": "now"', "This is not JSON"],
        [DELETION.replace("evt_1", "evt_2"), "must be evt_1"],
        [DELETION.replace('"sub_1"', '""'), "data.object.id"],
        [FURTHER, "look at HANDLE_EVENT_TYPES, PROVIDER_A_FORMAT"],
        [FURTHER, "the worker does not answer", undefined, { worker: "" }],
        [FURTHER, "", saved, { worker: LISTED }],
        [NOTICE, "look at NOTIFY", undefined, { worker: LISTED }],
        [NOTICE, "", saved, { worker: TELLS }],
        [MIXED, "items.data[0].current_period_end"],
        [MIXED, "", saved, { worker: LICENSED }],
        ['{"id":"evt_1","type":"v1.billing.meter.error"}', "not handled"],
        [DELETION, "has changed since you opened", undefined, { old: "740" }],
        [DELETION, "has changed since you opened", () => Response.json([])],
        [DELETION, perhaps, () => Promise.reject(new TypeError("reset"))],
        [DELETION, "Nothing is changed", undefined, { payload: DELETION }],
        [DELETION, "was applied already", undefined, { outcome: "duplicate" }],
        [DELETION, "Its account was erased", undefined, { outcome: "erased" }],
        [DELETION, "accountId is missing", undefined, failing("BW005")],
        // It may help although a retry would fail now.
        [DELETION, "", saved, failing("BW001")],
      ] as [string, string, (() => Response)?, Record<string, unknown>?][]
  ) {
    const tried = { outcome: "applied", error_code: null, error: null };
    const { calls, read, send } = openConsole((call) =>
      call.method === "PATCH" && respond
        ? respond()
        : call.url.includes("billing_try_event")
        ? Response.json([{ ...tried, ...changes }])
        : call.url.includes("billing-worker?queue=none")
        ? Response.json(worker || {}, { status: worker ? 200 : 503 })
        : answering("", changes)(call)
    );
    const [, own = ""] = /name="version" value="(\d+)"/.exec(await read(PAGE))!;
    const fields = { ...KEY, text, version: `${old || own}` };
    const answer = await send("/failure/repair", fields);
    assertEquals(answer.status, expected ? 422 : 303);
    const page = await answer.text();
    assertStringIncludes(page, expected);
    assertStringIncludes(page, expected && text.replaceAll('"', "&quot;"));
    assertEquals(page.includes(perhaps), expected === perhaps);
    const patches = calls.filter(({ method }) => method === "PATCH");
    const sent = patches.map(({ sent }) => sent);
    assertEquals(sent, respond ? [`{"payload":${text}}`] : []);
    for (const { url } of patches) {
      assertStringIncludes(url, "version=eq.741&columns=payload");
    }
    // The trial runs the handler as well.
    const tries = calls.filter(({ url }) => url.includes("billing_try_event"))
      .map(({ sent }) => JSON.parse(sent).event.payload);
    if (tries.length > 0) {
      assertEquals(tries, [worker === LISTED ? text : undefined]);
    }
    const told = await read(PAGE);
    const warning = "A retry would fail now: subscription_unknown: BW001: of";
    for (const part of [warning, "Fix that first, then retry"]) {
      assertEquals(told.includes(part), changes["error_code"] === "BW001");
    }
  }
});

const UNOWNED: [format: string, path: string, string, string][] = [
  [
    ...["stripe", "data.object.metadata.accountId"] as const,
    '{"id":"evt_1","type":"customer.subscription.created","data":{"object":{"id":"sub_1","items":{"data":[{"price":{"id":"p"},"current_period_end":1800000000}]},"n":12345678901234567890}}}',
    ',"metadata":{"accountId":"acc_\\"1"}}}}',
  ],
  [
    ...["paddle", "data.custom_data.accountId"] as const,
    '{"event_id":"evt_1","event_type":"subscription.canceled","data":{"custom_data":null,"n":1.0,"id":"sub_1"}}',
    "",
  ],
  [
    ...["polar", "data.metadata.accountId"] as const,
    '{"type":"subscription.updated","data":{"id":"s","product_id":"p","status":"active","metadata":{"team":1.50}}}',
    "",
  ],
  [
    ...["dodo", "data.metadata.accountId"] as const,
    '{"type":"subscription.active","data":{"subscription_id":"s","product_id":"p","status":"active","metadata":{}}}',
    "",
  ],
  [
    ...["lemon-squeezy", "meta.custom_data.account_id"] as const,
    '{"meta":{"event_name":"subscription_created"},"data":{"type":"subscriptions","id":"1","attributes":{"variant_id":7,"status":"active"}}}',
    "",
  ],
];
Deno.test("for an event without an account there is a field, which writes it where the format has it", async () => {
  const account = 'acc_"1';
  for (const [format, path, payload, end] of UNOWNED) {
    const lacks = { payload, error_code: "account_unknown" };
    const reply = Response.json({ settings: { formats: { a: format } } });
    const answer = (changes: object) => (call: Request) =>
      call.url.includes("billing_try_event")
        ? Response.json([{ outcome: "applied", error_code: null, error: null }])
        : call.url.includes("billing-worker")
        ? reply.clone()
        : answering("", { ...lacks, ...changes })(call);
    for (
      const [changes, isThere] of [
        [{}, true],
        [{ kind: "update" }, true],
        [{ error_code: "event_invalid" }, false],
        [{ original: "{}" }, false],
        [{ resolved_at: "2026-11-22T00:00:00+00:00" }, false],
        // Of another shape.
        [{ payload: '{"data":"sub_1","meta":{}}' }, false],
      ] as const
    ) {
      const page = await openConsole(answer(changes)).read(PAGE);
      assertEquals(page.includes('name="account"'), isThere, format);
      assertEquals(page.includes(`<code>${path}</code>`), isThere, format);
    }
    const { calls, send } = openConsole(answer({}));
    await send("/failure/repair", { ...KEY, version: "741", account });
    const [patch] = calls.filter(({ method }) => method === "PATCH");
    const { payload: sent } = JSON.parse(patch!.sent);
    assertEquals(at(sent, path), account);
    const others = edited(sent, { [path]: undefined });
    const parent = path.slice(0, path.lastIndexOf("."));
    assertEquals(
      edited(others, { [parent]: at(JSON.parse(payload), parent) }),
      JSON.parse(payload),
    );
    // Numbers stay as they are written.
    for (const number of payload.match(/\d{5,}|\d\.\d+/g) ?? []) {
      assertStringIncludes(patch!.sent, number);
    }
    if (end) {
      assertEquals(patch!.sent, `{"payload":${payload.slice(0, -3)}${end}}`);
    }
  }
});
