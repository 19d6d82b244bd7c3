/**
 * The console in memory, in front of a stand-in for the database's API. tests/console
 * has it in a browser.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { mock } from "node:test";
import { HIDDEN, UsageError } from "../../scripts/common/cli.ts";
import { parseConsoleArguments } from "../../scripts/console.ts";
import { createConsole, createSession } from "../../scripts/console/app.tsx";
import { compareLines, prettyJson } from "../../scripts/console/payload.tsx";
import { openProject } from "../../scripts/console/project.ts";
import { distance } from "../../scripts/console/ui.tsx";
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import { at } from "../../supabase/functions/_shared/billing/events/fields.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { edited } from "../support/edited.ts";
import { command } from "../support/run_script.ts";

const HOST = "127.0.0.1:54340";
const LOCAL_URL = "http://127.0.0.1:54321";
const HOSTED_URL = "https://abc.supabase.co";
const PAGE = "/failure?provider=a&event=evt_1";
const KEY = { provider: "a", event: "evt_1" };
const COOKIE = "billing_console_54340";

const ROW = {
  provider: "a",
  event_id: "evt_1",
  id: "7",
  status: "dead",
  type: "customer.subscription.created",
  subscription_id: "sub_1",
  account_id: null,
  version: "741",
  error_code: "event_invalid",
  error: "No account",
  attempts: 1,
  last_failed_at: "2026-11-22T00:00:00+00:00",
  retry_requested_at: null,
  resolved_at: null,
  kind: null,
  next_retry_at: null,
  resolution: null,
  resolution_note: null,
  resolved_by: null,
  occurred_at: null,
  created_at: null,
  next_attempt_at: null,
  payload: '{"id": "evt_1"}',
  original: null,
  payload_encoding: "json",
};

const minutesAgo = (minutes: number) =>
  new Date(Date.now() - minutes * 60_000).toISOString();

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

Deno.test("parseConsoleArguments() takes a port", () => {
  const parse = (...args: string[]) =>
    parseConsoleArguments(args, { env: {}, warn() {} });
  const usual = { projectUrl: LOCAL_URL, secretKey: LOCAL_SECRET_KEY };
  assertEquals(parse(), { ...usual, port: 54340 });
  assertEquals(parse("--port", "5").port, 5);
  for (const port of ["65536", "x"]) {
    assertThrows(() => parse("--port", port), UsageError);
  }
});

Deno.test("a request under another host, or without the cookie, sees nothing", async () => {
  const { request, session, calls } = openConsole();
  for (
    const host of [
      "evil.example:54340",
      "localhost:54340",
      "127.0.0.1",
      "",
      "127.0.0.1:543401",
      "127.0.0.1:54340.evil.example",
    ]
  ) {
    for (const path of ["/failures", "/style.css"]) {
      const { status } = await request(path, { headers: { host } });
      assertEquals(status, 421, host);
    }
  }

  for (
    const [path, cookie] of [
      ["/failures", ""],
      ["/?token=x", ""],
      ["/?token=", ""],
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
    "https://evil.example",
    "http://127.0.0.1:3000",
    "null",
    "",
    `http://${HOST}1`,
    `https://${HOST}`,
  ].map((origin) => ({ headers: { origin } }));
  const stranger = { headers: { origin: `http://${HOST}`, cookie: "" } };
  for (
    const path of [
      "/failure/retry",
      "/failure/resolve",
      "/failure/repair",
      "/failure/reopen",
      "/failures/retry",
      "/notifications/send",
      "/grant_plan",
      "/end_grant",
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

Deno.test("the first page does not say that all is well while something waits", async () => {
  const waiting = (minutes: number) => ({
    notifications_pending: 2,
    oldest_pending_notification: minutesAgo(minutes),
  });
  const swept = { provider: "b", last_error: null, found: 28 };
  for (
    const [health, sweeps, says, ...others] of [
      [waiting(1), [], "Nothing is failing"],
      [waiting(10), [], "2 notifications waiting"],
      [
        { missed_events: 1 },
        [{ ...swept, last_success_at: minutesAgo(61) }],
        "1 event never arrived",
        ">b<",
        "1 h ago",
        ">28<",
      ],
      [
        {},
        [{ ...swept, last_error: "<refused>", last_success_at: null }],
        "a sweep has an error",
        "&lt;refused&gt;",
      ],
    ] as const
  ) {
    const { read, calls } = openConsole(({ url }) => {
      if (url.includes("per_hour")) {
        return Response.json({ code: "57014" }, { status: 500 });
      }
      if (url.includes("sweeps")) return Response.json(sweeps);
      return Response.json(url.includes("health") ? [health] : []);
    });
    const page = await read("/");
    assertStringIncludes(page, `<h1>${says}</h1>`);
    assertStringIncludes(page, "took too long");
    for (const text of others) assertStringIncludes(page, text);
    assertEquals(page.includes("Events that never"), sweeps.length > 0);

    // That of a key that was removed is left out.
    const { url } = calls.find(({ url }) => url.includes("sweeps"))!;
    const wanted = new URL(url).searchParams.get("wanted_at")!;
    assertEquals(
      distance(Date.parse(wanted.slice("gt.".length))),
      "1 h ago",
    );
  }
});

Deno.test("the first page draws handled and failed events by the hour", async () => {
  const rows = [
    [61, "applied", 1_200],
    [62, "stale", 34],
    [63, "failed", 2],
    // The database's clock is ahead.
    [-1, "applied", 1],
  ].map(([ago, outcome, events]) => ({
    hour: minutesAgo(Number(ago)),
    outcome,
    events,
  }));
  const { read } = openConsole(() => Response.json(rows));
  const page = await read("/");

  const bars = page.matchAll(/<rect x="(\d+)" .*?height="(\d+)"/g)
    .map(([, x, height]) => [x, height].join());
  assertEquals([...bars], ["72,3", "72,0", "71,30", "71,10"]);
  for (
    const text of [
      "1,235 (at most 1,234 an hour) handled.",
      "2 (at most 2 an hour) failed and still open.",
    ]
  ) assertStringIncludes(page, text);
});

const NEXT = "2999-01-31T00:00:00+00:00";
const NO = { access: false, subscriptions: 0 };
const granted = (paid_until: string | null) => [{
  subscription_id: "grant_1",
  billing_subscriptions: { paid_until },
}];

Deno.test("a search says first whether the account has access, until when, and by what", async () => {
  for (
    const [changes, grants, ...texts] of [
      [
        {},
        [],
        "yes, with no end known",
        "plan IDp",
        "api unlimited, seats 1,500",
      ],
      [{ access_until: NEXT }, [], "yes, until 2999-01-31 00:00:00 UTC"],
      [{ subscriptions: 2 }, granted("infinity"), "yes", "End now"],
      [{ subscriptions: 2 }, granted(null), "yes", "Pays for 2 subscriptions"],
      [{ ...NO, paused: true }, [], "no", "pausedtrue", "of plan free: api"],
      [
        { ...NO, subscriptions: null, features: {} },
        [],
        "no",
        "No sub",
        "none",
      ],
    ] as [object, object[], ...string[]][]
  ) {
    const answer = {
      access: true,
      access_until: null,
      subscriptions: 1,
      subscription_id: "sub_1",
      plan_id: "p",
      paused: false,
      features: { seats: 1_500, api: null },
      ...changes,
    };
    const { read, calls } = openConsole(({ url }) => {
      if (url.includes("/rpc/")) return Response.json(answer);
      if (url.includes("billing_grants")) return Response.json(grants);
      const isOfFailures = /failed_events.*account_id=eq/.test(url);
      return Response.json(
        isOfFailures ? [{ ...ROW, account_id: "acc_1" }] : [],
      );
    });

    const page = (await read("/search?q=%00acc_1")).replace(/.*<main/s, "")
      .replaceAll(/<[^>]+>/g, "");
    const [access, ...others] = texts;
    const start = page.indexOf(`Has access: ${access}`);
    assert(start > 0 && start < page.indexOf("Failures"), page);
    for (const text of others) assertStringIncludes(page, text);
    for (const text of ["Pays for", "End now", "pausedfalse"]) {
      const isExpected = others.some((other) => other.startsWith(text));
      assertEquals(page.includes(text), isExpected, text);
    }
    const asked = calls.filter(({ url }) => url.includes("/rpc/"));
    assertEquals(asked.map(({ sent }) => sent), ['{"account_id":"acc_1"}']);
    assert(!calls.some(({ url }) => url.includes("%00")), "no ID has a NUL");
  }
});

Deno.test("a grant is made once, however often the button is clicked", async () => {
  let refused = true;
  const { calls, read, send } = openConsole(({ url }) => {
    if (!url.includes("grant_plan")) return Response.json([]);
    return refused
      ? Response.json({ code: "P0001", message: "No reason." }, { status: 400 })
      : Response.json("grant_1");
  });
  const found = "/search?q=acc_2";
  const [, form = ""] = /name="form" value="([\w-]+)"/.exec(await read(found))!;
  const args = { account_id: "acc_2", plan_id: "p", reason: "x", who: "Kim" };
  const give = () => send("/grant_plan", { ...args, form });

  await give();
  assertStringIncludes(await read(found), "No reason.");
  refused = false;
  await Promise.all([give(), give()]);
  assertStringIncludes(await read(found), "Done: grant_1");
  for (const path of ["/grant_plan_", "/grant_plan/1", "/_end_grant"]) {
    assertEquals((await send(path, args)).status, 404);
  }
  const sent = calls.map(({ sent }) => sent).filter(Boolean);
  assertEquals(sent.map((it) => JSON.parse(it)), [args, args]);
});

Deno.test("JSON, changes and times are written as texts", () => {
  const deep = "[".repeat(50_000) + "]".repeat(50_000);
  for (
    const [json, pretty] of [
      ['{"a":12345678901234567890}', '{\n  "a": 12345678901234567890\n}'],
      ["[1e400,1.10]", "[\n  1e400,\n  1.10\n]"],
      ['"\u{e0001}\u200b"', '"\\udb40\\udc01\\u200b"'],
      [deep, deep],
    ] as const
  ) assertEquals(prettyJson(json), pretty);

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

Deno.test("a page says what to do about an unusable answer", async () => {
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
    "open",
    "resolved",
    "event_invalid",
    "",
    "x",
    "",
    "charge.failed",
  ]);
  const query = new URL(calls[0]!.url).searchParams;
  assertEquals(query.get("resolved_at"), "is.null");
  assertEquals(query.get("error_code"), "eq.event_invalid");
  assertEquals(query.get("type"), "eq.x");

  await send("/failures/retry", filter);
  const { sent } = calls.find(({ sent }) => sent)!;
  assertEquals(JSON.parse(sent), {
    of_type: "x",
    of_error_code: "event_invalid",
  });

  for (const { method, url, headers } of calls) {
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
  const resolved = { resolved_at: ROW.last_failed_at, resolution: "applied" };
  for (
    const [expected, changes] of [
      ["open, waits for a person", {}],
      // The schedule does not run.
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
      ["applied", false],
      ["duplicate", false],
      ["stale", false],
      ["ignored", true],
      ["by hand", true],
    ] as [string, boolean][]
  ) {
    const changes = { ...resolved, resolution };
    const page = await openConsole(answering("", changes)).read(PAGE);
    assertEquals(page.includes("Open again"), isLeft, resolution);
    assertEquals(page.includes("Nothing is left to do"), !isLeft, resolution);
  }
});

const failing = (error_code: string) => ({
  outcome: "failed",
  error_code,
  error: `${error_code}: of a test`,
});
const DELETION =
  '{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1","n":12345678901234567890,"n":1.10}}}';

const FURTHER = '{"id":"evt_1","type":"charge.failed","n":1.10}';
const LISTED = { settings: { handledTypes: ["charge.failed"] } };
const NOTICE =
  '{"id":"evt_1","type":"customer.subscription.trial_will_end","data":{"object":{"id":"sub_1"}}}';
const MIXED =
  '{"id":"evt_1","type":"customer.subscription.updated","data":{"object":{"id":"sub_1","status":"active","items":{"data":[{"price":{"id":"p"},"current_period_end":"x"},{"price":{"id":"q","recurring":{"usage_type":"licensed"}},"current_period_end":1800000000}]}}}}';

const PERHAPS = "The change may have been made";
const OUTDATED = "has changed since you opened";

interface Repair {
  /** How the database answers the change; it is saved by default. */
  respond?: () => Response | Promise<Response>;
  /** The version of the row that the page has shown. */
  shown?: string;
  /** The worker's settings; empty if it does not answer. */
  worker?: object | "";
  /** Of the row. */
  row?: object;
  /** What the trial of the event says. */
  tried?: object;
}

/** Returns the answers of a database and a worker to a repair. */
function repairing({ respond, worker = {}, row = {}, tried }: Repair) {
  return (call: Request) => {
    if (call.method === "PATCH") return respond?.() ?? Response.json([ROW]);
    if (call.url.includes("billing_try_event")) {
      const applied = { outcome: "applied", error_code: null, error: null };
      return Response.json([{ ...applied, ...tried }]);
    }
    if (call.url.includes("billing-worker?queue=none")) {
      return Response.json(worker || {}, { status: worker ? 200 : 503 });
    }
    return answering("", row)(call);
  };
}

/** What is typed, and why it is not saved; empty if it is. */
const REPAIRS: [text: string, says: string, Repair?][] = [
  [DELETION, ""],
  [DELETION, "", { row: { event_id: "sha256:00" } }],
  ['{}, "resolved_at": "now"', "This is not JSON"],
  [DELETION.replace("evt_1", "evt_2"), "must be evt_1"],
  [DELETION.replace('"sub_1"', '""'), "data.object.id"],
  [FURTHER, "check HANDLE_EVENT_TYPES, PROVIDER_A_FORMAT"],
  [FURTHER, "the worker does not answer", { worker: "" }],
  [FURTHER, "", { worker: LISTED }],
  [NOTICE, "check NOTIFY", { worker: LISTED }],
  [NOTICE, "", { worker: { settings: { notify: ["trial_ending"] } } }],
  [MIXED, "items.data[0].current_period_end"],
  [MIXED, "", { worker: { settings: { planItem: "licensed" } } }],
  ['{"id":"evt_1","type":"v1.billing.meter.error"}', "not handled"],
  [DELETION, OUTDATED, { shown: "740" }],
  [DELETION, OUTDATED, { respond: () => Response.json([]) }],
  [DELETION, PERHAPS, { respond: () => Promise.reject(new TypeError("no")) }],
  [DELETION, "Nothing is changed", { row: { payload: DELETION } }],
  [DELETION, "was applied already", { tried: { outcome: "duplicate" } }],
  [DELETION, "Its account was erased", { tried: { outcome: "erased" } }],
  [DELETION, "accountId is missing", { tried: failing("BW005") }],
  // It may help although a retry would fail now.
  [DELETION, "", { tried: failing("BW001") }],
];

Deno.test("a repair is sent as it was typed, or refused with a reason", async () => {
  for (
    const [text, says, repair = {}] of REPAIRS
  ) {
    const { respond, shown, worker, tried } = repair;
    const { calls, read, send } = openConsole(repairing(repair));
    const [, current = ""] = /name="version" value="(\d+)"/.exec(
      await read(PAGE),
    )!;

    const version = shown ?? current;
    const answer = await send("/failure/repair", { ...KEY, text, version });
    assertEquals(answer.status, says ? 422 : 303);
    const page = await answer.text();
    assertStringIncludes(page, says);
    assertStringIncludes(page, says && text.replaceAll('"', "&quot;"));
    assertEquals(page.includes(PERHAPS), says === PERHAPS);

    const patches = calls.filter(({ method }) => method === "PATCH");
    const isSent = says === "" || respond !== undefined;
    const sent = patches.map(({ sent }) => sent);
    assertEquals(sent, isSent ? [`{"payload":${text}}`] : []);
    for (const { url } of patches) {
      assertStringIncludes(url, "version=eq.741&columns=payload");
    }

    // The trial runs the handler as well.
    const tries = calls.filter(({ url }) => url.includes("billing_try_event"))
      .map(({ sent }) => JSON.parse(sent).event.payload);
    if (isSent || tried) {
      assertEquals(tries, [worker === LISTED ? text : undefined]);
    }

    const afterwards = await read(PAGE);
    const warning = "A retry would fail now: subscription_unknown: BW001: of";
    for (const part of [warning, "Fix that first, then retry"]) {
      assertEquals(
        afterwards.includes(part),
        says === "" && tried !== undefined,
      );
    }
  }
});

const UNOWNED: Record<FormatName, string> = {
  stripe:
    '{"id":"evt_1","type":"customer.subscription.created","data":{"object":{"id":"sub_1","items":{"data":[{"price":{"id":"p"},"current_period_end":1800000000}]},"n":12345678901234567890}}}',
  paddle:
    '{"event_id":"evt_1","event_type":"subscription.canceled","data":{"custom_data":null,"n":1.0,"id":"sub_1"}}',
  polar:
    '{"type":"subscription.updated","data":{"id":"s","product_id":"p","status":"active","metadata":{"team":1.50}}}',
  dodo:
    '{"type":"subscription.active","data":{"subscription_id":"s","product_id":"p","status":"active","metadata":{}}}',
  "lemon-squeezy":
    '{"meta":{"event_name":"subscription_created"},"data":{"type":"subscriptions","id":"1","attributes":{"variant_id":7,"status":"active"}}}',
};
Deno.test("an account is added where the event's format has it", async () => {
  const account = 'acc_"1';
  for (const [format, payload] of Object.entries(UNOWNED)) {
    const [path] = FORMATS[format as FormatName].names.account_ids;
    const lacks = { payload, error_code: "account_unknown" };
    const worker = { settings: { formats: { a: format } } };
    const answer = (changes: object) =>
      repairing({ row: { ...lacks, ...changes }, worker });

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
    const before = JSON.parse(payload);
    const parent = path.slice(0, path.lastIndexOf("."));
    assertEquals(edited(sent, { [parent]: at(before, parent) }), before);
    // Numbers stay as they are written.
    for (const number of payload.match(/\d{5,}|\d\.\d+/g) ?? []) {
      assertStringIncludes(patch!.sent, number);
    }
    if (format === "stripe") {
      const added = ',"metadata":{"accountId":"acc_\\"1"}}}}';
      assertEquals(patch!.sent, `{"payload":${payload.slice(0, -3)}${added}}`);
    }
  }
});

function startConsole(port: number): Deno.ChildProcess {
  const env = { SUPABASE_URL: LOCAL_URL, SUPABASE_SECRET_KEY: "sb_x" };
  return command("console", [`--port=${port}`], env).spawn();
}

Deno.test("console prints a link, listens on 127.0.0.1 alone, and ends on Ctrl-C", async () => {
  const child = startConsole(0);
  const errors = new Response(child.stderr).text();
  let said = "";
  const output = child.stdout.pipeThrough(new TextDecoderStream());
  for await (const text of output) {
    said += text;
    if (said.includes("Stop with Ctrl-C")) break;
  }
  assertStringIncludes(said, LOCAL_URL);
  const link = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}/.exec(said)?.[0];

  const port = Number(new URL(link!).port);
  const second = await startConsole(port).output();
  assertEquals(second.code, 1);
  assertMatch(
    new TextDecoder().decode(second.stderr),
    /^Port \d+ is in use\. .*--port/,
  );

  const others = Deno.networkInterfaces().map(({ address }) => address)
    .filter((address) => !/^(127\.|::1$|fe80)/.test(address));
  for (const hostname of [...others, "127.0.0.2"]) {
    const connection = await Deno.connect({ hostname, port }).catch(() => {});
    connection?.close();
    assertEquals(connection, undefined, hostname);
  }

  child.kill("SIGINT");
  assertEquals((await child.status).code, 0);
  assertEquals(await errors, "");
});
