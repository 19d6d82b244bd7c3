import postgres from "postgres";
import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  check,
  Failed,
  type Findings,
  type Here,
  instructionsFor,
  orSkip,
  Skipped,
  type Target,
} from "./check.ts";
import { readSettings } from "./project.ts";

const MIGRATIONS = new URL("../../supabase/migrations/", import.meta.url);

/** pg_net makes 200 calls per second, so more wait only if its process has ended. */
const MOST_QUEUED = 100;

type CodedError = Error & { readonly code?: string };

export async function* checkDatabase(
  { projectUrl, dbUrl }: Target,
  here: Here,
): Findings {
  const place = projectUrl ?? dbUrl ?? "";
  await using opened = new AsyncDisposableStack();
  let sql: postgres.Sql | undefined;

  if (dbUrl !== undefined) {
    yield check("database", async () => {
      try {
        const { url, ssl } = await databaseTls(dbUrl, here.env);
        const connection = postgres(url, {
          max: 1,
          connect_timeout: 10,
          // A pooler in transaction mode keeps no prepared statements.
          prepare: false,
          ssl,
          onnotice() {},
        });
        opened.defer(() => connection.end());

        const version = await supportedVersion(connection);
        sql = connection;
        return ssl && !ssl.rejectUnauthorized
          ? `Postgres ${version} answers; its certificate was not verified (sslmode=require)`
          : `Postgres ${version} answers`;
      } catch (error) {
        if (error instanceof Failed) throw error;
        throw notConnected(error as CodedError, place);
      }
    });
  }

  const database = () => {
    orSkip(dbUrl, "needs SUPABASE_DB_URL");
    return orSkip(sql, "fix the database first");
  };
  const fail = (error: CodedError) => failCheck(error, place);
  yield check("migration", () => checkMigration(database(), place).catch(fail));
  yield check(
    "schedule",
    () =>
      checkSchedule(database(), orSkip(projectUrl, "needs SUPABASE_URL"), here)
        .catch(fail),
  );
}

async function supportedVersion(sql: postgres.Sql): Promise<string> {
  const [server] = await sql<{ version: string; isTooOld: boolean }[]>`
    select
      current_setting('server_version') as version,
      current_setting('server_version_num')::int < 150000 as "isTooOld"`;
  const { version = "", isTooOld } = server ?? {};
  if (!isTooOld) return version;
  throw new Failed(
    `is Postgres ${version}, and the receiver needs 15 or 17. Upgrade it (dashboard, Project Settings, Infrastructure)`,
  );
}

function notConnected(error: CodedError, url: string): Failed {
  const { message, code = "" } = error;
  const { database, databaseUrl } = instructionsFor(url);
  if (/^(?:CONNECT_TIMEOUT|ECONNREFUSED|57P0[1-5])$/.test(code)) {
    return new Failed(
      `does not answer: ${message}. ${database}. Or the URL is wrong. ${databaseUrl}`,
    );
  }
  if (/CERT|UNABLE_TO_(VERIFY|GET)/.test(code)) {
    return new Failed(
      `its certificate cannot be verified, so the password was not sent: ${message}. Download the root certificate (dashboard, Database, Settings, SSL Configuration), and set PGSSLROOTCERT to the file`,
    );
  }
  return new Failed(
    `cannot connect: ${message}. ${databaseUrl}, with the database's password`,
  );
}

/**
 * Returns a database's URL, and the options of `tls.connect()`, or false without TLS,
 * which a database on this machine need not have. The password is sent only to a server
 * that proves its name, unless the URL says `sslmode=require`.
 */
async function databaseTls(databaseUrl: string, env: Environment) {
  const url = new URL(databaseUrl);
  const isHere = isLoopback(databaseUrl);
  const mode = url.searchParams.get("sslmode") ?? (isHere && "disable");
  const file = env["PGSSLROOTCERT"];
  // `postgres` would pass it on to the server.
  url.searchParams.delete("sslmode");
  const { href } = url;

  if (isHere && mode === "disable") return { url: href, ssl: false as const };
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const ssl = { host, rejectUnauthorized: mode !== "require" };
  if (!ssl.rejectUnauthorized || !file) return { url: href, ssl };
  try {
    const ca = await Deno.readTextFile(file);
    return { url: href, ssl: { ...ssl, ca } };
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`the root certificate ${file} cannot be read: ${message}`);
  }
}

/** Turns a failed query into a failed check, so that the other checks go on. */
function failCheck(error: CodedError, url: string): never {
  if (error instanceof Failed || error instanceof Skipped) throw error;
  const todo = error.code === "42501" // insufficient_privilege
    ? `The check needs the role postgres. ${instructionsFor(url).databaseUrl}`
    : "Run this again, or look at the database's log";
  throw new Failed(`cannot be checked: ${error.message}. ${todo}`);
}

/** Looks at schema public: a squash removes the migration from the history. */
async function checkMigration(sql: postgres.Sql, url: string): Promise<string> {
  const migrations = Array.from(
    Deno.readDirSync(MIGRATIONS),
    ({ name }) => Deno.readTextFileSync(new URL(name, MIGRATIONS)),
  );
  const names = new Set(migrations.join().match(/\bpublic\.billing_\w+/g));

  const missing = await sql`
    select n.name
    from unnest(${[...names]}::text[]) as n (name)
    where to_regclass(n.name) is null
      and not exists (
        select from pg_proc p
        where p.pronamespace = 'public'::regnamespace
          and 'public.' || p.proname = n.name
      )`;
  if (missing.length === 0) return "is applied";

  const what = missing.length === names.size
    ? "is not applied"
    : `is another version's: ${missing[0]!.name} is missing`;
  throw new Failed(`${what}. ${instructionsFor(url).migrate}`);
}

async function checkSchedule(
  sql: postgres.Sql,
  project: string,
  here: Here,
) {
  const { query } = instructionsFor(project);
  const todo =
    `${query}: select billing.schedule_worker('${project}', 'sb_secret_...');`;

  const [has] = await sql`
    select
      to_regclass('cron.job') is not null as cron,
      to_regproc('net.http_post') is not null as net,
      to_regclass('vault.decrypted_secrets') is not null as vault`;
  if (!has?.cron && isLoopback(project)) {
    throw new Skipped("the local stack wakes the worker itself");
  }
  if (!has?.cron) throw new Failed(`pg_cron is not installed. ${todo}`);

  const [missing] = await sql`
    select string_agg(name, ' and ') as jobs
    from unnest(array['billing-worker', 'billing-prune']) as name
    where name not in (select jobname from cron.job where active)`;
  if (missing?.jobs) throw new Failed(`no active job ${missing.jobs}. ${todo}`);
  // Disabling an extension leaves the job behind, which then fails.
  if (!has.net) throw new Failed(`pg_net is not installed. ${todo}`);
  if (!has.vault) throw new Failed(`Vault is not installed. ${todo}`);

  const [secret] = await sql`
    select
      max(decrypted_secret) filter (where name = 'billing_worker_url') as url,
      max(decrypted_secret) filter (where name = 'billing_worker_key') as key
    from vault.decrypted_secrets`;
  if (secret?.url !== `${project}/functions/v1/billing-worker`) {
    const url = secret?.url ?? "nothing";
    throw new Failed(`wakes ${url} instead of this project's worker. ${todo}`);
  }
  // The key may exist, but the worker may refuse it.
  await readSettings(secret.url, secret.key ?? "", here).catch((error) => {
    throw /^refuses/.test(error.message)
      ? new Failed(`the worker refuses its key, which is in Vault. ${todo}`)
      : error;
  });

  const [net] = await sql`
    select count(*)::int as queued from net.http_request_queue`;
  if (net?.queued > MOST_QUEUED) {
    throw new Failed(
      `${net?.queued} calls wait in pg_net, whose process has ended. ${query}: select net.worker_restart();`,
    );
  }
  return "wakes the worker every minute and prunes old rows";
}
