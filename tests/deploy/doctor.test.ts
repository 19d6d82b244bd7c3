/**
 * The doctor on a deployment that works, and on one that is broken on purpose,
 * part by part.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import type { Check } from "../../scripts/doctor/check.ts";
import { createCommand } from "../../scripts/common/create_command.ts";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { createDatabase } from "../support/create_database.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { makeCertificates } from "../support/certificates.ts";
import { freePort } from "../support/free_port.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import { migrate } from "../support/migrate_part.ts";
import { connect, rowCounts } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import { startTlsDatabase } from "../support/tls_database.ts";
import { startDoctorStage } from "./doctor_stage.ts";

const ALL = [
  "endpoint",
  "unsigned event",
  "clock",
  "signed event",
  "worker",
  "worker's key",
  "failures",
  "notifications",
  "live and test",
  "REST API",
  "database",
  "migration",
  "schedule",
];

const sql = connect();
const stage = await startDoctorStage();
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
const other = await createDatabase(port, { name: "doctor" });
const otherSql = postgres(other.url, { max: 1, onnotice() {} });

Deno.test.beforeEach(async () => {
  // Other tests have left subscriptions of both modes, failures open, and
  // notifications given up.
  await sql`update billing.subscriptions set livemode = null`;
  await sql`delete from billing.notifications`;
  await sql`delete from billing.failed_events`;
});
Deno.test.afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await otherSql.end();
  await sql.end();
});

/** Returns the names of the checks that failed; each says what to do. */
function failedChecks(findings: Record<string, Check>): string[] {
  return Object.entries(findings).filter(([, finding]) => {
    if (finding.state !== "FAIL") return false;
    assert(finding.todo.length > 10, JSON.stringify(finding));
    return true;
  }).map(([name]) => name);
}

Deno.test("a working deployment passes, and nothing is stored", async () => {
  const before = await rowCounts(sql);
  const findings = await stage.look();
  assertEquals(Object.keys(findings), ALL);
  assertEquals(
    Object.entries(findings).filter(([name, { state }]) =>
      state !== (name === "schedule" ? "skipped" : "ok")
    ),
    [],
  );
  assert(findings.schedule?.text.includes("the local stack wakes the worker"));
  assertEquals(await rowCounts(sql), before);
});

Deno.test("docs/deploy.md explains each line", async () => {
  const text = await Deno.readTextFile(
    new URL("../../docs/deploy.md", import.meta.url),
  );
  const table = text.slice(text.indexOf("| Line "), text.indexOf("## 8."));
  const names = [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name);
  assertEquals(names, ALL);
});

Deno.test("a closed port fails, and the checks that need it are skipped", async () => {
  const url = `http://127.0.0.1:${freePort()}/functions/v1/billing-webhook`;
  const findings = await stage.look({ target: { url } });
  assertEquals(failedChecks(findings), ["endpoint"]);
  assertEquals(findings["signed event"]?.state, "skipped");
});

Deno.test("a wrong path fails", async () => {
  const url = `${stage.projectUrl}/functions/v1/billing-webhooks`;
  assertEquals(failedChecks(await stage.look({ target: { url } })), [
    "endpoint",
  ]);
});

Deno.test("a receiver behind verify_jwt fails", async () => {
  const findings = await stage.look({
    instead: (path) =>
      path.startsWith("/functions/")
        ? Response.json({ message: "Missing authorization header" }, {
          status: 401,
        })
        : undefined,
  });
  assertEquals(failedChecks(findings), [
    "unsigned event",
    "signed event",
    "worker",
  ]);
});

Deno.test("a secret other than the deployment's fails", async () => {
  const env = { PROVIDER_A_SIGNING_SECRET: "whsec_of_somebody_else" };
  const findings = await stage.look({ here: { env } });
  assertEquals(failedChecks(findings), ["signed event"]);
  assert(findings["signed event"]?.text.includes("401"));
});

Deno.test("no secret at all fails", async () => {
  const findings = await stage.look({ here: { env: {} } });
  assertEquals(failedChecks(findings), ["signed event"]);
});

for (
  const [way, shift] of [["ahead", 400_000], ["behind", -400_000]] as const
) {
  Deno.test(`a clock that is ${way} fails, and so does what it signs`, async () => {
    const findings = await stage.look({
      tools: { clock: () => Date.now() + shift },
    });
    assertEquals(failedChecks(findings), ["clock", "signed event"]);
    assert(findings.clock?.text.includes(way), findings.clock?.text);
  });
}

Deno.test("a project without the worker fails", async () => {
  const findings = await stage.look({
    instead: (path) =>
      path.endsWith("/billing-worker")
        ? new Response("Not Found", { status: 404 })
        : undefined,
  });
  assertEquals(failedChecks(findings), ["worker"]);
});

Deno.test("a worker that accepts calls without a key fails", async () => {
  const findings = await stage.look({
    instead: (path) =>
      path.endsWith("/billing-worker") ? new Response("OK") : undefined,
  });
  assertEquals(failedChecks(findings), ["worker"]);
});

Deno.test("a wrong secret key fails", async () => {
  const findings = await stage.look({ target: { secretKey: "sb_secret_x" } });
  assertEquals(failedChecks(findings), [
    "worker's key",
    "failures",
    "notifications",
    "live and test",
    "REST API",
  ]);
});

Deno.test("a failed event that is open makes its check fail, with the count", async () => {
  await sql`
    select public.billing_record_failed_event(
      'a', ${uniqueId("evt")}, '{}', 'text', 'event_invalid', 'No id')`;
  const findings = await stage.look();
  assertEquals(failedChecks(findings), ["failures"]);
  assert(findings.failures?.text.startsWith("1 open, the oldest since 20"));
});

Deno.test("a notification that was given up makes its check fail, with the count", async () => {
  await sql`
    insert into billing.notifications (provider, event_id, account_id, subscription_id, status)
    values ('a', ${uniqueId("evt")}, 'acc_1', 'sub_1', 'dead')`;
  const findings = await stage.look();
  assertEquals(failedChecks(findings), ["notifications"]);
  assertEquals(findings.notifications?.text, "given up: 1");
});

/** Adds a notification that is to be sent in an hour, with an error. */
async function addWaiting(
  row: {
    attempts: number;
    created_at?: Date;
    next_attempt_at?: Date;
    last_error?: string | null;
    status?: string;
  },
) {
  const notification = {
    provider: "a",
    event_id: uniqueId("evt"),
    account_id: "acc_1",
    subscription_id: "sub_1",
    next_attempt_at: new Date(Date.now() + 3_600_000),
    last_error: "Resend: validation_error: The domain is not verified.",
    ...row,
  };
  await sql`insert into billing.notifications ${sql(notification)}`;
}

Deno.test("notifications that keep failing make their check fail, with the newest error", async () => {
  await addWaiting({ attempts: 3, last_error: "the receiver answered 503" });
  await addWaiting({ attempts: 1 });
  const findings = await stage.look();
  assertEquals(failedChecks(findings), ["notifications"]);
  assertEquals(
    findings.notifications?.text,
    "2 wait after failed attempts, with the error: Resend: validation_error: The domain is not verified",
  );
  await addWaiting({ attempts: 10, status: "dead" });
  assertEquals(
    (await stage.look()).notifications?.text,
    "given up: 1; 2 wait after failed attempts, with the error: Resend: validation_error: The domain is not verified",
  );
});

Deno.test("a notification that was refused with 429 for hours makes its check fail", async () => {
  const hoursAgo = new Date(Date.now() - 2 * 3_600_000);
  await addWaiting({
    attempts: 0,
    created_at: hoursAgo,
    last_error: "daily_quota_exceeded ".repeat(20),
  });
  const findings = await stage.look();
  assertEquals(failedChecks(findings), ["notifications"]);
  const text = findings.notifications?.text ?? "";
  assertStringIncludes(text, "1 waits after failed attempts");
  assert(text.endsWith("…") && text.length < 230, text);
});

for (
  const [what, row] of [
    ["after its first failed attempt", { attempts: 1 }],
    ["while its second attempt is under way", {
      attempts: 2,
      next_attempt_at: new Date(0),
    }],
    ["that a rate limit holds back for a moment", { attempts: 0 }],
  ] as const
) {
  Deno.test(`a notification ${what} is shown, and is no fault`, async () => {
    await addWaiting(row);
    assertEquals((await stage.look()).notifications, {
      state: "ok",
      text:
        "none was given up; 1 waits after failed attempts, with the error: Resend: validation_error: The domain is not verified",
    });
  });
}

Deno.test("a notification that was set to be sent again is not taken for failing", async () => {
  const next_attempt_at = new Date(0);
  await addWaiting({ attempts: 0, next_attempt_at });
  await addWaiting({ attempts: 1, next_attempt_at });
  await addWaiting({ attempts: 1, next_attempt_at, last_error: null });
  assertEquals((await stage.look()).notifications, {
    state: "ok",
    text: "none was given up",
  });
});

/** Leaves these subscriptions of provider `b` alone, and asks about them. */
async function lookAtModes(...livemodes: (boolean | null)[]) {
  await sql`delete from billing.subscriptions where provider = 'b'`;
  for (const livemode of livemodes) {
    await sql`
      insert into billing.subscriptions
        (id, provider, account_id, status, plan_id, current_period_end, livemode)
      values (${
      uniqueId("sub")
    }, 'b', 'acc_1', 'active', 'price_1', now(), ${livemode})`;
  }
  const findings = await stage.look({ target: { provider: "b" } });
  return findings["live and test"]!;
}

Deno.test("test subscriptions beside live ones fail, and the mode to set is named", async () => {
  const both = await lookAtModes(true, false, null);
  assertEquals(both.state, "FAIL");
  assert(
    "todo" in both &&
      both.todo.startsWith(
        "Set PROVIDER_B_MODE=live in supabase/functions/.env,",
      ),
  );
  // Those of the other provider do not count.
  await sql`update billing.subscriptions set livemode = true where provider = 'a'`;
  for (
    const [livemodes, says] of [
      [[], "no recorded subscription says its mode yet"],
      [[null], "no recorded subscription says its mode yet"],
      [[true, null], "all recorded subscriptions are live"],
      [
        [false, null],
        "only test subscriptions; before real payments, set PROVIDER_B_MODE=live",
      ],
    ] as const
  ) {
    assertEquals(await lookAtModes(...livemodes), { state: "ok", text: says });
  }
});

Deno.test("a database that does not answer fails", async () => {
  const dbUrl = `postgresql://postgres:postgres@127.0.0.1:${freePort()}/x`;
  const findings = await stage.look({ target: { dbUrl } });
  assertEquals(failedChecks(findings), ["database"]);
  assertEquals(findings.migration?.state, "skipped");
});

Deno.test("a role that may not read the schedule fails", async () => {
  await using _extensions = await installSupabaseExtensions(
    setting("TEST_PG_SHARE_DIR"),
  );
  const hosted = await createDatabase(port, { name: "doctor_stranger" });
  await sql`create role doctor_stranger login password 'stranger'`;
  await withDatabase(
    hosted.url,
    (sql) => sql`create extension pg_cron schema pg_catalog`,
  );
  try {
    const stranger = new URL(hosted.url);
    stranger.username = "doctor_stranger";
    stranger.password = "stranger";
    const { schedule } = await stage.look({
      target: { dbUrl: stranger.href },
    });
    assertStringIncludes(schedule?.text ?? "", "permission denied");
    assertStringIncludes(
      schedule && "todo" in schedule ? schedule.todo : "",
      "role postgres",
    );
  } finally {
    await sql`drop role doctor_stranger`;
  }
});

Deno.test("a database's password goes to a server that proves its name, and to no other", async () => {
  const certificates = await makeCertificates("localhost");
  const folder = await Deno.makeTempDir();
  const rootFile = `${folder}/root.pem`;
  await Deno.writeTextFile(rootFile, certificates.authority);
  await using server = startTlsDatabase(certificates, { databasePort: port });
  async function look(host: string, query: string, env = {}) {
    const dbUrl =
      `postgresql://postgres:postgres@${host}:${server.port}/postgres?${query}`;
    const findings = await stage.look({
      target: { dbUrl },
      here: { env: { ...LOCAL_SIGNING_SECRETS, ...env } },
    });
    return findings.database!;
  }
  try {
    const verified = "sslmode=verify-full";
    const unknown = await look("localhost", verified);
    const renamed = await look("127.0.0.1", verified, {
      PGSSLROOTCERT: rootFile,
    });
    for (const finding of [unknown, renamed]) {
      assertEquals(finding.state, "FAIL");
      assert(finding.text.includes("password was not sent"), finding.text);
    }
    assertEquals(server.heard, []);

    const known = await look("localhost", verified, {
      PGSSLROOTCERT: rootFile,
    });
    assertEquals(known, { state: "ok", text: "answers" });
    const inUrl = await look(
      "localhost",
      `${verified}&sslrootcert=${rootFile}`,
    );
    assertEquals(inUrl, { state: "ok", text: "answers" });
    const asked = await look("localhost", "sslmode=require");
    assertEquals(asked.state, "ok");
    assert(asked.text.includes("was not verified"), asked.text);
    assertEquals(server.heard.length, 3);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a database without the migration fails", async () => {
  const findings = await stage.look({ target: { dbUrl: other.url } });
  assertEquals(failedChecks(findings), ["migration"]);
  assertEquals(findings.migration?.text, "is not applied");
});

Deno.test("a database with another version's migration fails, with a name that is missing", async () => {
  const changed = await createDatabase(port, { name: "doctor_version" });
  await migrate(changed.url);
  await withDatabase(
    changed.url,
    (sql) => sql`drop view public.billing_records`,
  );
  const findings = await stage.look({ target: { dbUrl: changed.url } });
  assertEquals(failedChecks(findings), ["migration"]);
  assertEquals(
    findings.migration?.text,
    "is another version's: public.billing_records is missing",
  );
});

Deno.test("after a squash, the migration counts by what it has created", async () => {
  const squashed = await createDatabase(port, { name: "doctor_squash" });
  await migrate(squashed.url);
  await withDatabase(squashed.url, async (sql) => {
    await sql`update supabase_migrations.schema_migrations set version = '20991231000000', name = 'all'`;
  });
  const { migration } = await stage.look({ target: { dbUrl: squashed.url } });
  assertEquals(migration, { state: "ok", text: "is applied" });
});

Deno.test("the schedule fails until it wakes this project's worker", async () => {
  const project = "https://abcdefghijklmnopqrst.supabase.co";
  async function look() {
    const findings = await stage.look({
      target: { dbUrl: other.url, projectUrl: project, secretKey: undefined },
      tools: {
        // The project is not there, the endpoint is.
        fetch: (input, init) =>
          String(input).startsWith(project)
            ? Promise.resolve(new Response("", { status: 404 }))
            : fetch(input, init),
      },
    });
    return findings.schedule;
  }
  assertEquals((await look())?.text, "pg_cron is not installed");

  await using _extensions = await installSupabaseExtensions(
    setting("TEST_PG_SHARE_DIR"),
  );
  await otherSql`create extension pg_cron schema pg_catalog`;
  assertEquals(
    (await look())?.text,
    "no active job billing-worker and billing-prune",
  );

  await otherSql`
    select
      cron.schedule('billing-prune', '*/5 * * * *', 'select 1'),
      cron.alter_job(cron.schedule('billing-worker', '* * * * *', 'select 1'), active := false)`;
  assertEquals((await look())?.text, "no active job billing-worker");

  await otherSql`
    select cron.alter_job(jobid, active := true) from cron.job`;
  assertEquals((await look())?.text, "pg_net is not installed");

  await otherSql`create extension pg_net schema extensions`;
  assertEquals((await look())?.text, "Vault is not installed");

  await otherSql`create extension supabase_vault`;
  assertEquals(
    (await look())?.text,
    "wakes nothing instead of this project's worker",
  );

  await otherSql`
    select vault.create_secret(${`${project}/functions/v1/billing-worker`}, 'billing_worker_url')`;
  assertEquals((await look())?.state, "ok");
});

Deno.test("the command prints one line per check, and its exit code is 0, 1 or 2", async () => {
  const url = `${stage.projectUrl}/functions/v1/billing-webhook`;
  await stage.look(); // nothing is answered by something else any more
  const working = await command(["--url", url]);
  assertEquals(working.code, 0, working.text);
  assert(working.text.endsWith("5 ok, 0 FAIL, 7 skipped\n"), working.text);

  const broken = await command(["--url", `${url}s`]);
  assertEquals(broken.code, 1, broken.text);
  assert(/^FAIL +endpoint .* answered 404\. /.test(broken.text), broken.text);

  assertEquals((await command(["--url", "nowhere"])).code, 2);
});

async function command(args: string[]) {
  const script = new URL("../../scripts/doctor.ts", import.meta.url).pathname;
  const { code, stdout } = await createCommand(Deno.execPath(), {
    args: ["run", "-A", script, ...args],
    env: {
      ...LOCAL_SIGNING_SECRETS,
      SUPABASE_URL: "",
      SUPABASE_SECRET_KEY: "",
      SUPABASE_DB_URL: "",
    },
  }).output();
  return { code, text: new TextDecoder().decode(stdout) };
}
