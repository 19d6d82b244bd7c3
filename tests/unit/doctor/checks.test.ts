/** The checks of the doctor on answers that the local stack does not give. */
import { assert, assertEquals } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import {
  type RequestTools,
  sendRequest,
} from "../../../scripts/common/send_request.ts";
import { type Check, checkLine } from "../../../scripts/doctor/check.ts";
import {
  checkApi,
  notConnected,
} from "../../../scripts/doctor/check_database.ts";
import { publicNames } from "../../../scripts/doctor/check_migration.ts";
import { checkModes } from "../../../scripts/doctor/check_modes.ts";
import { checkNotifications } from "../../../scripts/doctor/check_notifications.ts";
import {
  checkFailures,
  checkWorkerAccepts,
  checkWorkerRefuses,
} from "../../../scripts/doctor/check_project.ts";
import { checkSigned } from "../../../scripts/doctor/check_signed_event.ts";
import {
  checkClock,
  checkEndpoint,
  checkUnsigned,
} from "../../../scripts/doctor/check_webhook.ts";

const URL = "https://ref.supabase.co/functions/v1/billing-webhook";
const SECRET = "whsec_deployed_0123456789";
const NOON = Date.UTC(2026, 10, 21, 12);

function answering(answer: () => Response): RequestTools {
  return { fetch: () => Promise.resolve(answer()), clock: () => NOON };
}

function answered(status: number, body = "") {
  const headers = new Headers();
  return { status, body, headers, startedAtMs: NOON, endedAtMs: NOON + 40 };
}

function todoOf(finding: Check): string {
  assertEquals(finding.state, "FAIL", finding.text);
  return finding.state === "FAIL" ? finding.todo : "";
}

Deno.test("checkLine() is one line, with what to do if the check failed", () => {
  assertEquals(
    checkLine("clock", { state: "FAIL", text: "late", todo: "Set it" }),
    "FAIL     clock           late. Set it",
  );
  assertEquals(
    checkLine("clock", { state: "ok", text: "right" }),
    "ok       clock           right",
  );
});

Deno.test("checkEndpoint() asks for the deployment, or for the local stack", () => {
  const fault = { fault: "Connection refused" };
  assert(todoOf(checkEndpoint(fault, { url: URL })).includes("project ref"));
  const local = "http://localhost:54321/functions/v1/billing-webhook";
  assert(
    todoOf(checkEndpoint(fault, { url: local })).includes("deno task start"),
  );
});

const HERE = "http://127.0.0.1:54321";

for (const status of [400, 401, 404, 406, 500, 503, undefined]) {
  Deno.test(`what to do about ${status ?? "no answer"} is said for the local stack or for the deployment`, async () => {
    for (const project of [HERE, "https://ref.supabase.co"]) {
      const todos = await todosAbout(project, status);
      assert(todos.length > 3, todos.join("\n"));
      const isOther = project === HERE
        ? /dashboard|SQL editor|supabase (?:secrets|functions|db)|\.supabase\.co/
        : /task start|local stack|functions\/\.env/;
      assertEquals(todos.filter((todo) => isOther.test(todo)), []);
    }
  });
}

/** Returns what to do if everything answers with a status, or does not answer. */
async function todosAbout(
  project: string,
  status: number | undefined,
): Promise<string[]> {
  const url = `${project}/functions/v1/billing-webhook`;
  const reply = status === undefined
    ? { fault: "Connection refused" }
    : answered(status);
  const tools: RequestTools = {
    fetch: () =>
      status === undefined
        ? Promise.reject(new Error("Connection refused"))
        : Promise.resolve(new Response("", { status })),
    clock: () => NOON,
  };
  const access = { secretKey: "sb_secret_1", tools };
  const checks = [
    checkEndpoint(reply, { url }),
    ..."fault" in reply ? [] : [checkUnsigned(reply, { url })],
    await checkSigned({
      url,
      provider: "a",
      env: { PROVIDER_A_SIGNING_SECRET: SECRET },
    }, tools),
    await checkWorkerRefuses(url, tools),
    await checkWorkerAccepts(url, access),
    await checkFailures(project, access),
    await checkNotifications(project, access),
    await checkModes({
      projectUrl: project,
      secretKey: "sb_secret_1",
      provider: "a",
    }, tools),
    await checkApi(project, access),
    ...["ECONNREFUSED", "28P01"].map((code) =>
      notConnected(Object.assign(new Error("x"), { code }), project)
    ),
  ];
  return checks.flatMap((check) => check.state === "FAIL" ? [check.todo] : []);
}

Deno.test("checkModes() says where to set the mode, on the local stack or for a deployment", async () => {
  for (
    const [project, start] of [
      [HERE, "Set PROVIDER_B_MODE=live in supabase/functions/.env, then"],
      [
        "https://ref.supabase.co",
        "supabase secrets set PROVIDER_B_MODE=live, then",
      ],
    ] as const
  ) {
    const both = await checkModes({
      projectUrl: project,
      secretKey: "sb_secret_1",
      provider: "b",
    }, answering(() => Response.json([{ id: "sub_1" }])));
    assert(todoOf(both).startsWith(start), todoOf(both));
  }
});

Deno.test("checkEndpoint() does not follow a redirect", () => {
  const finding = checkEndpoint(answered(308), { url: URL });
  assert(todoOf(finding).includes("https"));
});

Deno.test("checkUnsigned() distinguishes a function that does not start from another service", () => {
  assert(
    todoOf(checkUnsigned(answered(503, "boot"), { url: URL })).includes("log"),
  );
  assert(
    todoOf(checkUnsigned(answered(200, "OK"), { url: URL })).includes(
      "rewrite",
    ),
  );
});

Deno.test("checkUnsigned() says how the receiver logs what it refused", () => {
  assertEquals(
    checkUnsigned(answered(401, "Invalid signature"), { url: URL }),
    {
      state: "ok",
      text:
        "refused with 401; the signature_missing in the receiver's log is this check's",
    },
  );
});

for (
  const { date, state, why } of [
    { date: "Sat, 21 Nov 2026 12:00:00 GMT", state: "ok", why: "equal" },
    { date: "Sat, 21 Nov 2026 11:59:40 GMT", state: "ok", why: "20 s ahead" },
    { date: "Sat, 21 Nov 2026 12:00:30 GMT", state: "ok", why: "30 s behind" },
    { date: "Sat, 21 Nov 2026 11:59:28 GMT", state: "FAIL", why: "31 s ahead" },
    {
      date: "Sat, 21 Nov 2026 12:00:31 GMT",
      state: "FAIL",
      why: "31 s behind",
    },
    { date: "", state: "skipped", why: "not in the answer" },
    { date: "noon", state: "skipped", why: "no date" },
  ]
) {
  Deno.test(`checkClock() is ${state} if this machine's time is ${why}`, () => {
    const headers = new Headers({ date });
    const times = { startedAtMs: NOON, endedAtMs: NOON };
    assertEquals(checkClock({ headers, ...times }).state, state);
  });
}

for (
  const { status, names } of [
    { status: 401, names: "PROVIDER_B_SIGNING_SECRET" },
    {
      status: 500,
      names: "PROVIDER_B_SIGNING_SECRET with supabase secrets set",
    },
    { status: 503, names: "log" },
  ]
) {
  Deno.test(`checkSigned() says what to do about ${status}`, async () => {
    const finding = await checkSigned({
      url: URL,
      provider: "b",
      env: { PROVIDER_B_SIGNING_SECRET: SECRET },
    }, answering(() => new Response("", { status })));
    assert(todoOf(finding).includes(names));
    assertEquals(todoOf(finding).includes("SECRET="), false);
  });
}

Deno.test("checkSigned() refuses a 200 that is not from the receiver", async () => {
  const finding = await checkSigned({
    url: URL,
    provider: "a",
    env: { PROVIDER_A_SIGNING_SECRET: SECRET },
  }, answering(() => new Response("<html>")));
  todoOf(finding);
});

Deno.test("checkSigned() signs for no other machine with the local stack's secret", async () => {
  for (
    const [url, state] of [
      [URL, "skipped"],
      ["http://127.0.0.1:54321/functions/v1/billing-webhook", "ok"],
    ] as const
  ) {
    const check = await checkSigned({
      url,
      provider: "a",
      env: LOCAL_SIGNING_SECRETS,
    }, answering(() => new Response("OK")));
    assertEquals(check.state, state, check.text);
  }
});

Deno.test("checkWorkerRefuses() reports a worker that does not start", async () => {
  const tools = answering(() => new Response("", { status: 503 }));
  assert(todoOf(await checkWorkerRefuses(URL, tools)).includes("log"));
});

Deno.test("checkWorkerAccepts() distinguishes a fault of the worker from a wrong key", async () => {
  const secretKey = "sb_secret_1";
  const refused = answering(() => new Response("", { status: 401 }));
  const failing = answering(() => new Response("", { status: 500 }));
  const wrongKey = await checkWorkerAccepts(URL, { secretKey, tools: refused });
  const fault = await checkWorkerAccepts(URL, { secretKey, tools: failing });
  assert(todoOf(wrongKey).includes("sb_secret_"));
  assert(todoOf(fault).includes("supabase db push --remote"));
});

Deno.test("checkWorkerAccepts() names the database if the worker answers 503", async () => {
  const tools = answering(() => new Response("", { status: 503 }));
  const check = await checkWorkerAccepts(URL, {
    secretKey: "sb_secret_1",
    tools,
  });
  assert(check.text.includes("the database does not answer"), check.text);
  assert(!todoOf(check).includes("db push"), todoOf(check));
});

Deno.test("notConnected() distinguishes a database that is down from a wrong password", () => {
  for (const code of ["CONNECT_TIMEOUT", "ECONNREFUSED", "57P03"]) {
    const todo = todoOf(
      notConnected(Object.assign(new Error("x"), { code }), URL),
    );
    assert(todo.includes("paused"), todo);
    assert(!todo.includes("password"), todo);
  }
  const wrong = Object.assign(new Error("x"), { code: "28P01" });
  assert(todoOf(notConnected(wrong, URL)).includes("password"));
});

for (
  const [what, status, text, todo] of [
    [
      "the migration is missing",
      404,
      "the receiver's migration is not applied",
      "supabase db push --remote",
    ],
    [
      "schema public is not exposed",
      406,
      "does not expose schema public",
      "Project Settings, Data API",
    ],
  ] as const
) {
  Deno.test(`checkApi() says so if ${what}`, async () => {
    const finding = await checkApi("https://ref.supabase.co", {
      secretKey: "sb_secret_1",
      tools: answering(() => new Response("{}", { status })),
    });
    assert(finding.text.includes(text), finding.text);
    assert(todoOf(finding).includes(todo), todoOf(finding));
  });
}

Deno.test("checkApi() asks for schema public, whatever a project lists first", async () => {
  let asked: string | null = null;
  const finding = await checkApi("https://ref.supabase.co", {
    secretKey: "sb_secret_1",
    tools: {
      fetch: (_input, init) => {
        asked = new Headers(init?.headers).get("accept-profile");
        return Promise.resolve(Response.json([{}]));
      },
      clock: () => NOON,
    },
  });
  assertEquals([finding.state, asked], ["ok", "public"]);
});

Deno.test("publicNames() returns what a migration creates in schema public, once", () => {
  const migration = `
create or replace view billing.health as select 1;
create or replace view public.billing_health as select 1;
create or replace function public.billing_a()
create or replace function public.billing_a(b int)
create table billing.subscriptions (id text);
comment on view billing.health is 'create or replace view public.no';`;
  assertEquals(publicNames(migration), ["billing_health", "billing_a"]);
});

const ERROR = "Resend: validation_error: The domain is not verified.";
const HOUR_MS = 3_600_000;

/** What is said about notifications: attempts, and hours since creation and until the next. */
async function aboutPending(
  rows: readonly [attempts: number, age: number, wait: number][],
): Promise<Check> {
  const time = (hours: number) =>
    new Date(NOON + hours * HOUR_MS).toISOString();
  const pending = rows.map(([attempts, age, wait]) => ({
    attempts,
    created_at: time(-age),
    next_attempt_at: time(wait),
    last_error: ERROR,
  }));
  return await checkNotifications("https://ref.supabase.co", {
    secretKey: "sb_secret_1",
    tools: {
      fetch: (input) =>
        Promise.resolve(Response.json(
          String(input).includes("billing_health")
            ? [{ notifications_given_up: 0 }]
            : pending,
        )),
      clock: () => NOON,
    },
  });
}

for (
  const [what, row, state, isShown] of [
    ["after its first failed attempt", [1, 0, 0.001], "ok", true],
    ["after its second failed attempt", [2, 0, 0.1], "FAIL", true],
    ["whose second attempt is under way", [2, 0, -0.001], "ok", true],
    ["that a rate limit holds back for a moment", [0, 0.1, 0.01], "ok", true],
    ["that a quota holds back for hours", [0, 2, 5], "FAIL", true],
    ["that was set to be sent again", [0, 50, -0.001], "ok", false],
    ["that is sent again just now", [1, 50, -0.001], "ok", false],
  ] as const
) {
  Deno.test(`checkNotifications() is ${state} about a notification ${what}`, async () => {
    const finding = await aboutPending([[...row]]);
    assertEquals(finding.state, state, finding.text);
    assertEquals(finding.text.includes("1 waits after failed"), isShown);
  });
}

Deno.test("checkFailures() says so if the URL is not a project's", async () => {
  for (const body of ["<html>", "", "{}"]) {
    const finding = await checkFailures("https://www.example.com", {
      secretKey: "sb_secret_1",
      tools: answering(() => new Response(body)),
    });
    assert(todoOf(finding).includes("Check the URL"), body);
  }
});

Deno.test("sendRequest() gives the reason if there is no answer", async () => {
  const refused = new TypeError("fetch failed", {
    cause: new Error("Connection refused"),
  });
  const tools = { fetch: () => Promise.reject(refused), clock: () => NOON };
  assertEquals(await sendRequest(URL, {}, tools), {
    fault: "Connection refused",
  });
});
