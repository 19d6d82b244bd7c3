import { assert, assertEquals, assertThrows } from "@std/assert";
import { UsageError } from "../../scripts/common/cli.ts";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import {
  checkDeployment,
  findingLines,
  parseDoctorArguments,
} from "../../scripts/doctor.ts";
import type { Here, Target } from "../../scripts/doctor/check.ts";
import { checkEndpoint } from "../../scripts/doctor/endpoint.ts";
import { FORMATS } from "../../supabase/functions/_shared/billing/events/formats.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";

const HOSTED = "https://ref.supabase.co";
const HERE = "http://127.0.0.1:54321";
const PATH = "/functions/v1/billing-webhook";
const AT = `${HOSTED}${PATH}?forceFunctionRegion=x`;
const OWN = "https://example.com/api/billing/webhook";

const KEYS = ["sb_secret_of_this_test", "postgresql://ref:hunter2@pooler:5/x"];

function parse(line: string, changes: object = {}) {
  const [SUPABASE_SECRET_KEY = "", SUPABASE_DB_URL = ""] = KEYS;
  const env = { SUPABASE_SECRET_KEY, SUPABASE_DB_URL, ...changes };
  return parseDoctorArguments(line.split(" ").filter(Boolean), {
    env,
    warn() {},
  });
}

Deno.test("parseDoctorArguments() chooses the endpoint, the project and its keys", () => {
  for (
    const [line, SUPABASE_URL, url, projectUrl, keys = KEYS] of [
      // A hosted project's secrets are not sent to a port of this machine.
      ["", "", HERE + PATH, HERE, [LOCAL_SECRET_KEY, undefined]],
      ["", `${HOSTED}/`, HOSTED + PATH, HOSTED],
      [`--url ${AT}`, "", AT, HOSTED],
      [`--url ${OWN}`, "", OWN, undefined],
      [`--url ${OWN} --project-url ${HOSTED}/`, "", OWN, HOSTED],
    ] as const
  ) {
    const [secretKey, dbUrl] = keys;
    const expected = { url, projectUrl, secretKey, dbUrl, provider: "a" };
    assertEquals<unknown>(parse(line, { SUPABASE_URL }), expected);
  }
});

Deno.test("parseDoctorArguments() repeats no secret in a refusal", () => {
  for (
    const [line, name, value] of [
      ["--url ref.supabase.co", "--url", ""],
      [`--url http://ref.supabase.co${PATH}`, "--url", ""],
      [`--url ${AT}`, "SUPABASE_DB_URL", "https://u:hunter2@example.com"],
      [`--url ${AT}`, "SUPABASE_DB_URL", "postgresql://u:p@hunter2@e.com"],
    ] as const
  ) {
    const refused = () => parse(line, { [name]: value });
    const { message } = assertThrows(refused, UsageError, name);
    assertEquals(message.includes("hunter2"), false);
  }
});

const NOON = Date.UTC(2026, 10, 21, 12);
const SECRETS = { PROVIDER_B_SIGNING_SECRET: "whsec_deployed_0123456789" };

type Answer = (asked: string) => Response | Promise<Response>;

const reply = (status: number, body = "", headers = {}): Answer => () =>
  new Response(body, { status, headers });
const rows = (...found: object[]): Answer => () => Response.json(found);
const noAnswer: Answer = () => {
  const cause = new Error("Connection refused");
  return Promise.reject(new TypeError("fetch failed", { cause }));
};
const at = (date: string) =>
  reply(401, "Invalid signature", { date: `Sat, 21 Nov 2026 ${date} GMT` });
const ranAt = (time: string) => ({
  last_scheduled_run_at: `2026-11-21T${time}+00:00`,
});
const health = (changes: object) => {
  const quiet = { open_failures: 0, notifications_given_up: 0 };
  return rows({ ...quiet, ...ranAt("11:59:30"), ...changes });
};

const PARTS: Record<string, [asked: RegExp, answer: Answer]> = {
  signed: [/webhook .*provider-b-signature/, reply(200, "OK")],
  unsigned: [/webhook/, reply(401, "Invalid signature")],
  key: [/worker\?queue=none .*"apikey":"sb_secret_1"/, reply(200)],
  stranger: [/worker/, reply(401, "", { "x-supabase-server-error": "1" })],
  live: [/provider=eq.b.*livemode=is.true/, rows()],
  test: [/provider=eq.b.*livemode=is.false/, rows()],
  sent: [/sent_at=gt.2026-11-21T11%3A55/, rows()],
  sweeps: [/billing_sweeps\?provider=eq.b/, rows()],
  overdue: [/next_attempt_at=lt.2026-11-21T11%3A55/, rows()],
  free: [/plan_id=eq.free/, rows({ feature: "seats" }, { feature: "api" })],
  api: [/plan_id=neq.free&feature=eq.api/, rows({ feature: "api" })],
  seats: [/plan_id=neq.free&feature=eq.seats/, rows({ feature: "seats" })],
  failing: [
    /=gt.2026-11-21T12%3A00.*or=%28attempts.gte.2%2Ccreated_at.lt.2026-11-21T11/,
    rows(),
  ],
  health: [/billing_health.*"accept-profile":"public"/, health({})],
};

const settingsAnd = (row: Answer, settings?: object): Answer => (asked) =>
  /billing_health/.test(asked) ? row(asked) : Response.json({ settings });
const versions = (schemaVersion: number, schema_version: number) =>
  settingsAnd(health({ schema_version }), { schemaVersion });

async function look(
  parts = "",
  answer: Answer = noAnswer,
  { url = HOSTED, env = SECRETS, ...target }: Partial<Target & Here> = {},
): Promise<Record<string, string>> {
  async function ask(input: unknown, init: RequestInit = {}) {
    const asked = `${input} ${JSON.stringify(init.headers)}`;
    const [part, [, usual]] = Object.entries(PARTS)
      .find(([, [pattern]]) => pattern.test(asked))!;
    return await (parts.split(" ").includes(part) ? answer : usual)(asked);
  }

  const findings = checkDeployment({
    url: `${url}/functions/v1/billing-webhook`,
    projectUrl: url,
    secretKey: "sb_secret_1",
    dbUrl: undefined,
    provider: "b",
    ...target,
  }, { env, fetch: ask, clock: () => NOON });
  const found = await Array.fromAsync(findings);
  return Object.fromEntries(
    found.map(({ name, state, text }) => [name, `${state} ${text}`]),
  );
}

/** The parts that give this answer, and how a line of the checks begins or goes on. */
const ANSWERS = [
  ["unsigned", noAnswer, "endpoint", "Compare its project ref"],
  ["unsigned", reply(404), "endpoint", "functions deploy billing-webhook"],
  ["unsigned", reply(308), "endpoint", "a redirect"],
  ["unsigned", reply(401), "unsigned event", 'Keep "verify_jwt = false"'],
  ["unsigned", reply(503), "unsigned event", "does not start"],
  ["unsigned", reply(200), "unsigned event", "answered 200 instead of 401"],
  ["unsigned", at("11:59:29"), "clock", "ok within 30 s"],
  ["unsigned", at("11:59:28"), "clock", "31 s ahead"],
  ["unsigned", at("12:00:31"), "clock", "31 s behind"],
  ["unsigned", at("noon"), "clock", "skipped the answer has no Date"],
  ["signed", noAnswer, "signed event", "Connection refused. Run this again"],
  ["signed", reply(401), "signed event", "same PROVIDER_B_SIGNING_SECRET"],
  ["signed", reply(500), "signed event", "secret is missing, weak"],
  ["signed", reply(200, "<html>"), "signed event", "answered 200"],
  ["stranger", reply(404), "worker", "answered 404"],
  ["stranger", reply(401), "worker", "by Supabase's key check"],
  ["key", reply(401), "worker's key", "refuses the secret key"],
  ["key", reply(500), "worker's key", "answered 500. Its log has the reason"],
  // One cause is one FAIL.
  ["health", noAnswer, "REST API", "Cannot reach"],
  ["stranger", noAnswer, "worker", "cannot reach"],
  ["health", health(ranAt("11:55:00")), "worker's runs", "ok the schedule"],
  ["health", health(ranAt("11:54:59")), "worker's runs", "since 2026-11-21"],
  ["health", health({ last_scheduled_run_at: null }), "worker's runs", "never"],
  [
    "health",
    health({ notifications_given_up: 1 }),
    "notifications",
    "given up: 1. select * from billing.notifications",
  ],
  [
    "health",
    health({ notifications_pending: 1 }),
    "notifications",
    "ok 1 waiting to be sent, none given up",
  ],
  [
    "health",
    health({ open_failures: 1, oldest_open_failure: "2026-11-01T00:00:00Z" }),
    "failures",
    "1 open, the oldest since 2026-11-01",
  ],
  ["overdue", rows({}), "notifications", "Set a channel, NOTIFICATION_URL"],
  // Many at once take their time.
  ["overdue sent", rows({}), "notifications", "ok 0 waiting"],
  [
    "failing",
    rows({ last_error: "x".repeat(161) }),
    "notifications",
    `one keeps failing, with the error: ${"x".repeat(160)}…. Fix`,
  ],
  ["", noAnswer, "live and test", "ok no recorded subscription"],
  ["live", rows({}), "live and test", "ok no test subscription"],
  ["test", rows({}), "live and test", "ok no live subscription"],
  ["live test", rows({}), "live and test", "supabase secrets set PROVIDER"],
  ["key health", versions(2, 1), "version", "newer than the database: supa"],
  ["key health", versions(1, 2), "version", "functions deploy billing-webhook"],
  [
    "health",
    health({ erased_purchases: 2 }),
    "erased accounts",
    "warning events of erased accounts that would have made records: 2. ",
  ],
  [
    "health",
    health({ double_subscribed: 2 }),
    "paid twice",
    "warning accounts that pay for more than one subscription: 2. ",
  ],
  ["seats", rows(), "features", "warning only the plan free has seats, so"],
] as const;

Deno.test("the doctor says what each answer means, and what to do", async () => {
  for (const [parts, answer, line, text] of ANSWERS) {
    const found = await look(parts, answer);

    const failed = Object.keys(found)
      .filter((name) => found[name]!.startsWith("FAIL"));
    const isRight = /^(ok|skipped|warning) /.test(text);
    assertEquals(failed, isRight ? [] : [line]);
    assert(found[line]!.includes(text), found[line]);

    assertFits(Object.values(found), HOSTED);
    assertFits(Object.values(await look(parts, answer, { url: HERE })), HERE);
  }
});

const lookAt = (settings: object | undefined, row: Answer, url = HOSTED) =>
  look("key health", settingsAnd(row, settings), { url });

Deno.test("the doctor checks that acknowledged failures are retried and reported", async () => {
  for (
    const [acknowledging, hasAlerts, expected, row = health({})] of [
      [[], false, "undefined"],
      [["a"], true, "ok failures are retried, and reported"],
      [["a"], false, "no alert channel is set: set ALERT_URL"],
      [
        ["b"],
        true,
        "the schedule has not woken the worker",
        health(ranAt("11:54:59")),
      ],
    ] as const
  ) {
    const found = await lookAt({ acknowledging, hasAlerts }, row);
    assert(`${found["acknowledged"]}`.includes(expected), expected);
  }
});

Deno.test("the signed event of the doctor has no effect in any format", async () => {
  let body = "";
  const fetch = (_: unknown, init: RequestInit = {}) => {
    body = `${init.body}`;
    return Promise.resolve(new Response("Invalid signature", { status: 401 }));
  };
  const findings = checkEndpoint({
    url: AT,
    projectUrl: HOSTED,
    secretKey: "",
    dbUrl: undefined,
    provider: "b",
  }, { env: SECRETS, fetch, clock: () => NOON });
  await Array.fromAsync(findings);

  for (const format of Object.values(FORMATS)) {
    const clock = { nowSeconds: NOON / 1000, toleranceSeconds: 0 };
    const parsed = parseEvent(body, { format, ...clock });
    assertEquals("reason" in parsed && parsed.reason, "not_handled");
  }
});

Deno.test("the doctor checks what a provider's format needs", async () => {
  for (
    const [formats, acknowledging, expected] of [
      [undefined, [], "undefined"],
      [{ b: "stripe" }, [], "undefined"],
      [{}, [], "FAIL PROVIDER_B_FORMAT is wrong"],
      [{ b: "paddle" }, [], "ok events are read as paddle"],
      [{ b: "polar" }, ["a"], "warning Polar disables an endpoint after 10"],
      [{ b: "polar" }, ["b"], "ok events are read as polar"],
    ] as const
  ) {
    const settings = { acknowledging, hasAlerts: true, formats };
    const found = await lookAt(settings, health({}));
    assertEquals(`${found["format"]}`.slice(0, expected.length), expected);
  }
});

const swept = (settings: object, row: Answer, missed_events = 0) =>
  look(
    "key health sweeps",
    (asked) =>
      /billing_sweeps/.test(asked)
        ? row(asked)
        : settingsAnd(health({ missed_events }), settings)(asked),
  );

Deno.test("the doctor says whether events that never arrive are found", async () => {
  const fault = "PROVIDER_B_API_KEY is wrong";
  for (
    const [sweeps, format, expected] of [
      [undefined, "stripe", "undefined"],
      [{ a: null }, "paddle", "skipped off: nothing finds events"],
      [{}, "polar", "undefined"],
      [{ b: fault }, "polar", `warning ${fault}: docs/sweep.md`],
      [{ b: fault }, "paddle", `FAIL ${fault}: docs/sweep.md`],
      // The check of the format says so.
      [{ b: fault }, undefined, "undefined"],
    ] as const
  ) {
    const found = await swept({ sweeps, formats: { b: format } }, noAnswer);
    assertEquals(`${found["sweep"]}`.slice(0, expected.length), expected);
  }

  const at = (time: string) => `2026-11-21T${time}+00:00`;
  const last = (time: string) => ({ last_success_at: at(time) });
  const good = `last succeeded at ${at("11:59:00")}`;
  const error = (text: string) => ({ last_error: text });
  const begun = { last_success_at: null, wanted_since: at("09:00:00") };
  for (
    const [changes, expected, missed] of [
      [{}, `ok ${good}; missed in 7 days: 0`],
      [{}, `warning ${good}; missed in 7 days: 28. They were applied`, 28],
      [error("x"), `warning ${good}, but: x`],
      [last("09:00:00"), "ok last"],
      [
        { ...last("08:59:59"), ...error("x") },
        `FAIL has not succeeded since ${at("08:59:59")}. Last error: x. docs`,
      ],
      [{ last_success_at: null }, "FAIL has never succeeded. Last error: unkn"],
      [begun, "skipped waits"],
      [{ ...begun, ...last("05:00:00") }, "ok last"],
      [
        { ...begun, ...error("api_key_refused: 403") },
        "FAIL has never succeeded. Last error: api_key_refused: 403. ",
      ],
      // Another check says why.
      [
        { ...last("08:00:00"), wanted_at: at("11:54:59") },
        "skipped waits",
      ],
    ] as const
  ) {
    const row = {
      ...last("11:59:00"),
      last_error: null,
      wanted_since: at("01:00:00"),
      wanted_at: at("11:59:30"),
      ...changes,
    };
    const settings = { sweeps: { b: null }, formats: { b: "stripe" } };
    const found = await swept(settings, rows(row), missed);
    assertEquals(`${found["sweep"]}`.slice(0, expected.length), expected);
  }
});

Deno.test("the doctor compares the listed types with the functions", async () => {
  const LISTED = {
    handledTypes: ["charge.refunded"],
    accountFromCheckout: true,
  };
  const fault = 'HANDLE_EVENT_TYPES: "A" is no type';
  for (
    const [settings, handlers, ...expected] of [
      [{ handledTypes: [] }, [], "undefined"],
      // A checkout needs no function for its account.
      [LISTED, ["on_charge_refunded"], "ok each type in HANDLE_EVENT_TYPES"],
      [
        LISTED,
        ["on_charge_refund"],
        "FAIL events of charge.refunded fail: service_role cannot call billing.on_charge_refunded(text, jsonb)",
        "no listed type calls billing.on_charge_refund(text, jsonb)",
      ],
      [{ handledTypes: [] }, ["on_x"], "FAIL no listed type calls"],
      [{ handledTypes: [], handledTypesFault: fault }, [], `FAIL ${fault}. U`],
    ] as [object | undefined, string[] | undefined, ...string[]][]
  ) {
    for (const url of [HOSTED, HERE]) {
      const found = await lookAt(settings, health({ handlers }), url);
      const line = `${found["handlers"]}`;
      for (const text of expected) assert(line.includes(text), line);
      assertFits([line], url);
    }
  }
  // That is not another FAIL.
  assertEquals((await lookAt(LISTED, noAnswer))["handlers"], undefined);
});

function assertFits(texts: string[], place: string): void {
  const ofOther = place === HERE
    ? /dashboard|SQL editor|supabase (?:secrets|functions|db)|\.supabase\.co/
    : /task start|local stack|functions\/\.env/;
  const bare = texts.map((text) => text.replaceAll(place, ""));
  assertEquals(bare.filter((text) => ofOther.test(text)), []);
}

const OF_KEY =
  "worker's key, worker's runs, failures, notifications, live and test, REST API";
const OF_PROJECT = `worker, ${OF_KEY}`;
const OTHERS = { env: LOCAL_SIGNING_SECRETS };

Deno.test("where nothing runs, the doctor has one FAIL, wrapped to the terminal", async () => {
  for (
    const [url, says] of [
      [HERE, `FAIL nothing is running at ${HERE}${PATH}. Start the local`],
      [HOSTED, `FAIL cannot reach ${HOSTED}${PATH}: Connection refused. Comp`],
    ] as const
  ) {
    const parts = Object.keys(PARTS).join(" ");
    const { endpoint, ...others } = await look(parts, noAnswer, { url });
    assertEquals(endpoint!.slice(0, says.length), says);
    const why = "skipped cannot be checked before the endpoint is reached";
    assertEquals(others, { "all others": why });
  }

  const state = "FAIL";
  const text = `see ${HOSTED}/${"x".repeat(40)} and more`;
  for (
    const [columns, ...lines] of [
      [200, `FAIL     worker          ${text}`],
      [90, "FAIL     worker          see", `${" ".repeat(25)}${HOSTED}/`],
    ] as const
  ) {
    const found = findingLines({ name: "worker", state, text }, columns);
    for (const [i, line] of lines.entries()) {
      assertEquals(found[i]!.slice(0, line.length), line);
    }
    assertEquals(found.join(" ").replace(/ +/g, " "), `FAIL worker ${text}`);
  }
});

Deno.test("the doctor says what a check needs that it skips", async () => {
  for (
    const [why, parts, changes, names] of [
      ["needs SUPABASE_DB_URL", "", {}, "migration, schedule"],
      ["needs SUPABASE_SECRET_KEY", "", { secretKey: undefined }, OF_KEY],
      ["needs SUPABASE_URL", "", { projectUrl: undefined }, OF_PROJECT],
      ["fix the worker first", "stranger", {}, OF_KEY],
      [
        "fix the REST API first",
        "health",
        {},
        "worker's runs, failures, notifications, live and test",
      ],
      ["fix the endpoint first", "unsigned", {
        projectUrl: "https://other.supabase.co",
      }, "unsigned event, clock, signed event"],
      // Only this machine gets what is signed with the local stack's secret.
      ["needs PROVIDER_B_SIGNING_SECRET", "", OTHERS, "signed event"],
      ["needs PROVIDER_B_SIGNING_SECRET", "", { ...OTHERS, url: HERE }, ""],
    ] as const
  ) {
    const found = Object.entries(await look(parts, noAnswer, changes));
    const skipped = found.filter(([, text]) => text === `skipped ${why}`);
    assertEquals(skipped.map(([name]) => name).join(", "), names);
  }
});
