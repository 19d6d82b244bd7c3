/**
 * The doctor on a deployment that works, and on databases that are broken on purpose.
 * tests/unit/doctor.test.ts has what a deployment may answer.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { once } from "node:events";
import { type AddressInfo, createConnection, createServer } from "node:net";
import { createSecureContext, TLSSocket } from "node:tls";
import postgres from "postgres";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { checkDeployment } from "../../scripts/doctor.ts";
import type { Target } from "../../scripts/doctor/check.ts";
import { checkDatabase } from "../../scripts/doctor/database.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { SCHEMA_VERSION } from "../../supabase/functions/_shared/billing/database/schema_version.ts";
import {
  createDatabase,
  migrate,
  pretendVersion,
} from "../support/databases.ts";
import { startReceiver, startWorker, wake } from "../support/functions.ts";
import { freePort } from "../support/machine.ts";
import { runCommand } from "../support/run_script.ts";
import { deliver } from "../support/send.ts";
import { startPostgrest } from "../support/stacks.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import { connect, rowCounts } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const CHECKS = [
  "endpoint",
  "unsigned event",
  "clock",
  "signed event",
  "worker",
  "worker's key",
  "worker's runs",
  "sweep",
  "failures",
  "notifications",
  "live and test",
  "REST API",
  "database",
  "migration",
  "schedule",
];

const sql = connect();
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
const keys = await localKeys();
const stage = await startStage();
const ENDPOINT = `${stage.projectUrl}/functions/v1/billing-webhook`;

Deno.test.beforeEach(async () => {
  await sql`update billing.subscriptions set livemode = null`;
  await sql`delete from billing.notifications`;
  await sql`delete from billing.failed_events`;
});
Deno.test.afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await sql.end();
});

async function startStage() {
  await using opened = new AsyncDisposableStack();
  const webhook = opened.use(await startReceiver());
  const worker = opened.use(await startWorker({}));
  const portOf = ({ url }: { url: string }) => Number(new URL(url).port);
  const rest = opened.use(await startPostgrest(setting("TEST_DATABASE_URL")));

  const gateway = await startGateway(0, {
    targets: {
      webhook: portOf(webhook),
      worker: portOf(worker),
      rest: portOf(rest),
    },
    keys,
  });
  opened.defer(gateway.close);
  return Object.assign(opened.move(), {
    projectUrl: `http://127.0.0.1:${gateway.port}`,
    webhook,
    worker,
  });
}

async function look(
  changes: Partial<Target> = {},
  env = {},
  { check = checkDeployment, fetch = globalThis.fetch } = {},
) {
  const { projectUrl } = stage;
  const findings = check({
    url: ENDPOINT,
    projectUrl,
    secretKey: keys.secret,
    dbUrl: setting("TEST_DATABASE_URL"),
    provider: "a",
    ...changes,
  }, { env: { ...LOCAL_SIGNING_SECRETS, ...env }, fetch, clock: Date.now });

  const found: Record<string, string> = {};
  for await (const { name, state, text } of findings) {
    found[name] = `${state} ${text}`;
  }
  return found;
}

function failed(found: Record<string, string>): string[] {
  return Object.keys(found).filter((name) => found[name]!.startsWith("FAIL"));
}

Deno.test("a working deployment passes, and nothing is stored", async () => {
  await wake(stage.worker); // as the schedule does
  const before = await rowCounts(sql);

  const found = await look();
  assertEquals(Object.keys(found), CHECKS);
  const { schedule, sweep, ...others } = found;
  assertStringIncludes(schedule!, "skipped the local stack wakes the worker");
  assertStringIncludes(sweep!, "skipped off: nothing finds");
  const not = Object.entries(others).filter(([, text]) => !/^ok/.test(text));
  assertEquals(not, []);
  assertEquals(await rowCounts(sql), before);
});

Deno.test("functions older than the database say so, as does the doctor", async () => {
  const migrateTo = (version: number) =>
    sql.unsafe(`
      create or replace function billing.schema_version() returns int
      language sql stable return ${version}`);
  const { webhook, worker } = stage;

  await migrateTo(SCHEMA_VERSION + 1);
  await deliver(ENDPOINT, subscriptionEvent("customer.subscription.created"));
  await wake(worker);
  for (const { logged } of [webhook, worker]) {
    await logged(({ message }) => /older than the database/.test(message));
  }
  assertEquals(failed(await look()), ["version"]);
  await migrateTo(SCHEMA_VERSION);
});

/**
 * Made with OpenSSL, without an end: an authority, whose own key was not kept, and what it
 * signed for a server named `localhost` and `abcdefghijklmnopqrst.supabase.co`.
 */
const AUTHORITY = pem(
  "CERTIFICATE",
  `
MIIBaDCCAQ6gAwIBAgIUE4ntIigaP/wHGqxh3GPM4gcr1aAwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOVGVzdCBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPOTk5
OTEyMzEyMzU5NTlaMBkxFzAVBgNVBAMMDlRlc3QgYXV0aG9yaXR5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEmfsWFlhn6eBZeV8L5QNfD+V7API753YUPqpPSwz7
1IcU/JI76FEWY+PPnb4ZiO5A6Qxe1PE5gr22H24YhmBGYqMyMDAwDwYDVR0TAQH/
BAUwAwEB/zAdBgNVHQ4EFgQUGqPoCGWyL+pU9VJ9neu0zNGNDI0wCgYIKoZIzj0E
AwIDSAAwRQIhAK1zk0gVbg5gPfhw318mFQwMoAIyHEpwAazjiZZG4JhPAiB3SZac
EDbBEyuMfBrmNaaoWfkJ/Atni6I0mkZStMtQuw==`,
);

const CERTIFICATE = pem(
  "CERTIFICATE",
  `
MIIBrTCCAVOgAwIBAgIUYw+/A2LJLdMmV4/EnJSSnnoGSbswCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOVGVzdCBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPOTk5
OTEyMzEyMzU5NTlaMBYxFDASBgNVBAMMC1Rlc3Qgc2VydmVyMFkwEwYHKoZIzj0C
AQYIKoZIzj0DAQcDQgAEQ7vrD6mZUhrl1LNSW0PrI28aKzXH9y4iWrxl57tGeo9j
5eyHjoBYY3zVHjVzAPGN0eawbHulSGVIn5+ybmQdY6N6MHgwNgYDVR0RBC8wLYIJ
bG9jYWxob3N0giBhYmNkZWZnaGlqa2xtbm9wcXJzdC5zdXBhYmFzZS5jbzAdBgNV
HQ4EFgQUhiKFrVyYq7CxABscZnoyAmSHPBowHwYDVR0jBBgwFoAUGqPoCGWyL+pU
9VJ9neu0zNGNDI0wCgYIKoZIzj0EAwIDSAAwRQIgL8S0F1M1FdrBtYyQm7/SJaWQ
mclT7f0vp/6IsdIOKAUCIQC0NtUQzZVYHVkQjFqWyRce5KsMFsxB+xJW+8YBQ0E9
FQ==`,
);

/** The server's key. It guards nothing. */
const KEY = pem(
  "PRIVATE KEY",
  `
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQR3Bha1dyoeCVtO6
mWsT8+Q0bV1iZhxtKAA5V0hwtXqhRANCAARDu+sPqZlSGuXUs1JbQ+sjbxorNcf3
LiJavGXnu0Z6j2Pl7IeOgFhjfNUeNXMA8Y3R5rBse6VIZUifn7JuZB1j`,
);

/** Only here, so that nobody takes the key above for a secret. */
function pem(label: string, base64: string): string {
  return `-----BEGIN ${label}-----${base64}\n-----END ${label}-----\n`;
}

/**
 * Starts a server that speaks PostgreSQL's TLS in front of the database, and counts the
 * clients that go on past the handshake.
 */
async function startTlsDatabase() {
  let clients = 0;
  const secureContext = createSecureContext({ cert: CERTIFICATE, key: KEY });
  const server = createServer((client) =>
    // PostgreSQL's SSLRequest, and the answer that TLS follows.
    client.once("data", () => {
      client.write("S");
      const inside = new TLSSocket(client, { isServer: true, secureContext });
      // A client that does not trust the certificate breaks off.
      inside.on("error", () => {});
      inside.once("secure", () => {
        clients++;
        const database = createConnection(port, "127.0.0.1");
        inside.pipe(database).pipe(inside);
      });
    })
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port: listening } = server.address() as AddressInfo;
  return {
    port: listening,
    clients: () => clients,
    [Symbol.dispose]: () => void server.close(),
  };
}

Deno.test("a database's password goes only to a server that proves its name", async () => {
  const authority = await Deno.makeTempFile();
  await Deno.writeTextFile(authority, AUTHORITY);
  using server = await startTlsDatabase();
  const named = `localhost:${server.port}`;
  const unnamed = `127.0.0.1:${server.port}`;
  const silent = `127.0.0.1:${await freePort()}`;

  for (
    const { at, sslmode = "verify-full", root = "", says, isReached = false }
      of [
        { at: silent, says: "does not answer: " },
        { at: named, says: "password was not sent" },
        { at: unnamed, root: authority, says: "password was not sent" },
        { at: named, root: authority, says: "ok Postgres ", isReached: true },
        {
          at: named,
          sslmode: "require",
          says: "was not verified",
          isReached: true,
        },
        {
          at: named,
          sslmode: "prefer",
          says: "password was not sent",
        },
        {
          at: named,
          sslmode: "verify-ca",
          root: "/no",
          says: "root certificate /no cannot be",
        },
      ]
  ) {
    const before = server.clients();
    const dbUrl =
      `postgresql://postgres:postgres@${at}/postgres?sslmode=${sslmode}`;
    const found = await look({ dbUrl }, { PGSSLROOTCERT: root });
    assertStringIncludes(found["database"]!, says);
    assertEquals(server.clients() - before, isReached ? 1 : 0);
    assertEquals(
      found["migration"],
      isReached ? "ok is applied" : "skipped fix the database first",
    );
  }
  await Deno.remove(authority);
});

Deno.test("the migration counts by what it has created, also after a squash", async () => {
  const { url: dbUrl } = await createDatabase(port, { name: "doctor_version" });
  const { migration: none } = await look({ dbUrl });
  assertStringIncludes(none!, "FAIL is not applied. ");
  const { database } = await look({ dbUrl: `${dbUrl}_of_nobody` });
  assertStringIncludes(database!, "FAIL cannot connect: ");

  await migrate(dbUrl);
  await withDatabase(dbUrl, async (sql) => {
    await sql`delete from supabase_migrations.schema_migrations`;
    await sql`
      insert into supabase_migrations.schema_migrations (version, name)
      values ('20991231000000', 'all')`;
    assertEquals((await look({ dbUrl }))["migration"], "ok is applied");
    await sql`drop view public.billing_records`;
  });

  const found = await look({ dbUrl });
  assertEquals(failed(found), ["migration"]);
  assertStringIncludes(
    found["migration"]!,
    "is another version's: public.billing_records is missing. ",
  );
});

Deno.test("a server that is too old is the one fault that is named", async () => {
  const { url: dbUrl } = await createDatabase(port, {
    name: "doctor_too_old",
    sqlBefore: pretendVersion("doctor_too_old", 14),
  });
  const found = await look({ dbUrl });
  assertEquals(failed(found), ["database"]);
  assertStringIncludes(
    found["database"]!,
    "is Postgres 14.9, and the receiver needs 15 or 17. Upgrade it",
  );
});

const QUEUED = `
  insert into net.http_request_queue (method, url, headers, timeout_milliseconds)
  select 'POST', 'https://hooks.test', '{}', 5000 from generate_series(1, 101)`;

Deno.test("the schedule fails until it wakes this project's worker", async () => {
  const projectUrl = "https://abcdefghijklmnopqrst.supabase.co";
  const { url } = await createDatabase(port, { name: "doctor_schedule" });
  await using _extensions = await installSupabaseExtensions(
    setting("TEST_PG_SHARE_DIR"),
  );
  const owner = postgres(url, { max: 1, onnotice() {} });
  await using _owner = { [Symbol.asyncDispose]: () => owner.end() };
  const target = { dbUrl: url, projectUrl };
  function fetch(_: unknown, { headers }: RequestInit = {}) {
    const { apikey } = headers as Record<string, string>;
    const status = apikey === "sb_secret_1" ? 200 : 401;
    return Promise.resolve(new Response("", { status }));
  }

  const worker = `${projectUrl}/functions/v1/billing-worker`;
  const prune = "cron.schedule('billing-prune', '*/5 * * * *', 'select 1')";
  const wake = "cron.schedule('billing-worker', '* * * * *', 'select 1')";
  const other = "'https://other', 'billing_worker_url'";
  const isWrong = "instead of this project's worker. ";
  for (
    const [says, next] of [
      ["FAIL pg_cron is not", "create extension pg_cron schema pg_catalog"],
      [
        "FAIL no active job billing-worker and billing-prune. In the SQL editor",
        `select ${prune}, cron.alter_job(${wake}, active := false)`,
      ],
      [
        "FAIL no active job billing-worker. ",
        "select cron.alter_job(jobid, active := true) from cron.job",
      ],
      ["FAIL pg_net is not", "create extension pg_net schema extensions"],
      ["FAIL Vault is not", "create extension supabase_vault"],
      [`FAIL wakes nothing ${isWrong}`, `select vault.create_secret(${other})`],
      [
        `FAIL wakes https://other ${isWrong}`,
        `delete from vault.secrets;
        select vault.create_secret('${worker}', 'billing_worker_url')`,
      ],
      [
        "FAIL the worker refuses its key, which is in Vault. In the SQL editor",
        `select vault.create_secret('sb_secret_1', 'billing_worker_key')`,
      ],
      ["ok wakes the worker every minute and prunes", QUEUED],
      ["FAIL 101 calls wait in pg_net, whose process has ended. ", "select 1"],
    ] as const
  ) {
    const options = { check: checkDatabase, fetch };
    const { schedule } = await look(target, {}, options);
    assertStringIncludes(schedule!, says);
    await owner.unsafe(next);
  }

  await sql`create role doctor_stranger login password 'stranger'`;
  const stranger = new URL(url);
  stranger.username = "doctor_stranger";
  stranger.password = "stranger";
  const { schedule } = await look({ dbUrl: stranger.href });
  await sql`drop role doctor_stranger`;
  assertStringIncludes(schedule!, "FAIL cannot be checked: permission denied");
  assertStringIncludes(schedule!, ". The check needs the role postgres. ");
});

Deno.test("the command prints a line per check, and exits with 0, 1 or 2", async () => {
  for (
    const [endpoint, wanted, says] of [
      [ENDPOINT, 0, /^ok {7}endpoint {8}http.*\n5 ok, 0 FAIL, 8 skipped\n$/s],
      [
        `${ENDPOINT}s`,
        1,
        /^FAIL {5}endpoint {8}http\S+\s+answered\s+404\.\s+If its path/,
      ],
      ["nowhere", 2, /^$/],
    ] as const
  ) {
    const args = ["--url", endpoint];
    const { code, out } = await runCommand(
      "doctor",
      args,
      LOCAL_SIGNING_SECRETS,
    );
    assertEquals(code, wanted, out);
    assert(says.test(out), out);
  }
});
