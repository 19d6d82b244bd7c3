/**
 * What the doctor says about answers that the local stack does not give, and on
 * which terms it sends a password to a database.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { checkDeployment } from "../../../scripts/doctor.ts";
import type { Here, Target } from "../../../scripts/doctor/check.ts";
import { notConnected } from "../../../scripts/doctor/database.ts";
import { databaseTls } from "../../../scripts/doctor/database_tls.ts";

const NOON = Date.UTC(2026, 10, 21, 12);
const HOSTED = "https://ref.supabase.co";
const HERE = "http://127.0.0.1:54321";
const SECRETS = { PROVIDER_B_SIGNING_SECRET: "whsec_deployed_0123456789" };

type Answer = () => Response | Promise<Response>;

const reply = (status: number, body = "", headers = {}): Answer => () =>
  new Response(body, { status, headers });
const rows = (...found: object[]): Answer => () => Response.json(found);
const noAnswer: Answer = () => {
  const cause = new Error("Connection refused");
  return Promise.reject(new TypeError("fetch failed", { cause }));
};
const at = (date: string) =>
  reply(401, "Invalid signature", { date: `Sat, 21 Nov 2026 ${date} GMT` });
const health = (changes: object) =>
  rows({ open_failures: 0, notifications_given_up: 0, ...changes });

/** A notification that has an error; hours until now, and until it is due. */
function pending(attempts: number, age: number, wait: number) {
  const time = (hours: number) => new Date(NOON + hours * 3_600_000);
  return {
    attempts,
    created_at: time(-age),
    next_attempt_at: time(wait),
    last_error: `${"x".repeat(161)}.`,
  };
}

/** The parts of a deployment that works, by what is asked of them. */
const PARTS: Record<string, [asked: RegExp, answer: Answer]> = {
  signed: [/webhook .*provider-b-signature/, reply(200, "OK")],
  unsigned: [/webhook/, reply(401, "Invalid signature")],
  key: [/worker .*"apikey":"sb_secret_1"/, reply(200)],
  stranger: [/worker/, reply(401, "", { "x-supabase-server-error": "1" })],
  live: [/provider=eq.b.*livemode=is.true/, rows()],
  test: [/provider=eq.b.*livemode=is.false/, rows()],
  pending: [/billing_notifications/, rows()],
  health: [/billing_health.*"accept-profile":"public"/, health({})],
};

/** Looks at a deployment of which parts answer otherwise. */
async function look(
  parts = "",
  answer: Answer = noAnswer,
  { url = HOSTED, env = SECRETS, ...target }: Partial<Target & Here> = {},
): Promise<Record<string, string>> {
  async function ask(input: unknown, init: RequestInit = {}) {
    const asked = `${input} ${JSON.stringify(init.headers)}`;
    const [part, [, usual]] = Object.entries(PARTS)
      .find(([, [pattern]]) => pattern.test(asked))!;
    return await (parts.split(" ").includes(part) ? answer : usual)();
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

const ONE = "ok none was given up; 1 waits after failed attempts, with the err";
const NONE = "ok none was given up";
const OF_HEALTH = ["failures", "notifications", "REST API"];

for (
  const [parts, answer, line, text] of [
    ["unsigned", noAnswer, "endpoint", "refused. Compare its project ref"],
    ["unsigned", reply(404), "endpoint", "functions deploy billing-webhook"],
    ["unsigned", reply(308), "endpoint", "a redirect, which providers do not"],
    ["unsigned", reply(401), "unsigned event", 'Keep "verify_jwt = false"'],
    ["unsigned", reply(503), "unsigned event", "does not start. The first"],
    ["unsigned", reply(200), "unsigned event", "this is not the receiver. Che"],
    ["unsigned", at("11:59:29"), "clock", "ok within 30 s of this machine's"],
    ["unsigned", at("12:00:30"), "clock", "ok within 30 s of this machine's"],
    ["unsigned", at("11:59:28"), "clock", "this machine's clock is 31 s ahead"],
    ["unsigned", at("12:00:31"), "clock", "this machine's clock is 31 s behin"],
    ["unsigned", at("noon"), "clock", "skipped the answer has no Date header"],
    ["signed", noAnswer, "signed event", "Connection refused. Run this again"],
    ["signed", reply(401), "signed event", "Set PROVIDER_B_SIGNING_SECRET, PR"],
    ["signed", reply(500), "signed event", "_SECRET with supabase secrets set"],
    ["signed", reply(503), "signed event", "log has the reason (dashboard, Ed"],
    ["signed", reply(200, "<html>"), "signed event", "answered 200. The funct"],
    ["stranger", noAnswer, "worker", "Connection refused. Check the project's"],
    ["stranger", reply(404), "worker", "answered 404. If the project's URL is"],
    ["stranger", reply(503), "worker", "the worker does not start. The first"],
    ["stranger", reply(200), "worker", "answered 200 instead of 401 to a call"],
    ["stranger", reply(401), "worker", "before it reached the worker. Keep"],
    ["key", reply(401), "worker's key", "refuses the secret key. Use one that"],
    [
      "key",
      reply(500),
      "worker's key",
      "is missing: supabase db push --remote",
    ],
    [
      "key",
      reply(503),
      "worker's key",
      "the database does not answer the work",
    ],
    [
      "health",
      noAnswer,
      "failures",
      "cannot reach the REST API: Connection re",
    ],
    ["health", reply(200, "<html>"), "failures", "Check the URL: it should be"],
    [
      "health",
      reply(200, "{}"),
      "failures",
      "Check the URL: it should be a Su",
    ],
    ["health", reply(406), "failures", "Expose it (dashboard, Project Setting"],
    [
      "health",
      health({ open_failures: 2 }),
      "failures",
      "2 open, the oldest s",
    ],
    [
      "health",
      health({ notifications_given_up: 1 }),
      "notifications",
      "up: 1.",
    ],
    ["pending", rows(pending(1, 0, 0.1)), "notifications", ONE],
    ["pending", rows(pending(2, 0, 0.1)), "notifications", "1 waits after fai"],
    // Its second attempt is under way.
    ["pending", rows(pending(2, 0, -0.1)), "notifications", ONE],
    // A rate limit, then a quota.
    ["pending", rows(pending(0, 0.1, 0.1)), "notifications", ONE],
    ["pending", rows(pending(0, 1.1, 5)), "notifications", "1 waits after"],
    // Set to be sent again.
    ["pending", rows(pending(0, 50, -0.1)), "notifications", NONE],
    ["pending", rows(pending(1, 50, -0.1)), "notifications", NONE],
    ["", noAnswer, "live and test", "ok no recorded subscription says its mod"],
    ["live", rows({}), "live and test", "ok all recorded subscriptions are li"],
    ["test", rows({}), "live and test", "ok only test subscriptions; before r"],
    ["live test", rows({}), "live and test", "ones. supabase secrets set PROV"],
  ] as const
) {
  Deno.test(`doctor, ${line}: ${text}`, async () => {
    const found = await look(parts, answer);
    const failed = Object.keys(found)
      .filter((name) => found[name]!.startsWith("FAIL"));
    const isRead = /reach the REST|^Check|^Expose/.test(text);
    const isRight = /^(ok|skipped) /.test(text);
    assertEquals(failed, isRead ? OF_HEALTH : isRight ? [] : [line]);
    assert(found[line]!.includes(text), found[line]);
    if (text === NONE) assertEquals(found[line], NONE);
    assertFits(Object.values(found), HOSTED);
    assertFits(Object.values(await look(parts, answer, { url: HERE })), HERE);
  });
}

/** Asserts that what to do is said for the place, not for the other one. */
function assertFits(texts: string[], place: string): void {
  const ofOther = place === HERE
    ? /dashboard|SQL editor|supabase (?:secrets|functions|db)|\.supabase\.co/
    : /task start|local stack|functions\/\.env/;
  const bare = texts.map((text) => text.replaceAll(place, ""));
  assertEquals(bare.filter((text) => ofOther.test(text)), []);
}

Deno.test("doctor counts at most 100 notifications, and shortens their error", async () => {
  const many = Array(100).fill(pending(2, 0, 0.1));
  const { notifications } = await look("pending", rows(...many));
  assert(notifications!.startsWith("FAIL 100 or more wait after failed"));
  assert(notifications!.includes(` error: ${"x".repeat(160)}…. Fix what`));
});

const OF_KEY = "worker's key, failures, notifications, live and test, REST API";
const OF_ENDPOINT = "unsigned event, clock, signed event";
const OTHERS = { env: LOCAL_SIGNING_SECRETS };

for (
  const [why, parts, changes, names] of [
    ["needs SUPABASE_DB_URL", "", {}, "migration, schedule"],
    ["needs SUPABASE_SECRET_KEY", "", { secretKey: undefined }, OF_KEY],
    ["needs SUPABASE_URL", "", { projectUrl: undefined }, `worker, ${OF_KEY}`],
    ["fix the worker first", "stranger", {}, "worker's key"],
    ["fix the endpoint first", "unsigned", {}, OF_ENDPOINT],
    // Only this machine gets what is signed with the local stack's secret.
    ["needs PROVIDER_B_SIGNING_SECRET", "", OTHERS, "signed event"],
    ["needs PROVIDER_B_SIGNING_SECRET", "", { ...OTHERS, url: HERE }, ""],
  ] as const
) {
  Deno.test(`doctor ${why}: ${names}`, async () => {
    const found = Object.entries(await look(parts, noAnswer, changes));
    const skipped = found.filter(([, text]) => text === `skipped ${why}`);
    assertEquals(skipped.map(([name]) => name).join(", "), names);
  });
}

for (
  const [codes, text] of [
    ["CONNECT_TIMEOUT ECONNREFUSED 57P03", "does not answer: x. Check in the"],
    ["28P01", "cannot connect: x. Copy the URL from Connect in the dashboard"],
    ["SELF_SIGNED_CERT_IN_CHAIN CERT_HAS_EXPIRED", "password was not sent: x."],
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "password was not sent: x. Download"],
  ] as const
) {
  Deno.test(`doctor, about a database's error ${codes}: ${text}`, () => {
    for (const code of codes.split(" ")) {
      const error = Object.assign(new Error("x"), { code });
      const { message } = notConnected(error, HOSTED);
      assert(message.includes(text), message);
      if (text.startsWith("password")) continue;
      assertFits([notConnected(error, HERE).message], HERE);
    }
  });
}

Deno.test("databaseTls() verifies a server that is not on this machine, unless the URL says so", async () => {
  const host = "127.evil.example";
  const url = `postgresql://postgres.ref:hunter2@${host}:5432/postgres`;
  const verified = { host, rejectUnauthorized: true };
  const known = { ...verified, ca: await Deno.readTextFile("LICENSE") };
  for (
    const [query, PGSSLROOTCERT, ssl] of [
      ["", "", verified],
      ["?sslmode=verify-ca&sslrootcert=system", "", verified],
      ["", "LICENSE", known],
      ["?sslrootcert=LICENSE", "/nowhere", known],
      ["?sslmode=require", "", { host, rejectUnauthorized: false }],
    ] as const
  ) {
    const tls = await databaseTls(url + query, { PGSSLROOTCERT });
    assertEquals(tls, { url, ssl }, query);
  }
  const local = "postgresql://postgres:postgres@127.0.0.1:54322/postgres";
  assertEquals(await databaseTls(local, {}), { url: local, ssl: false });
  for (const query of ["?sslmode=disable", "?sslmode=prefer"]) {
    const open = () => databaseTls(url + query, {});
    await assertRejects(open, Error, "may send the password unencrypted");
  }
  const unread = () => databaseTls(url, { PGSSLROOTCERT: "/no" });
  await assertRejects(unread, Error, "certificate /no cannot be read");
});
