import postgres from "postgres";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import type { RequestTools } from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import {
  type Check,
  type Checks,
  failed,
  ok,
  skipped,
  type Surroundings,
} from "./check.ts";
import { checkMigrations } from "./check_migrations.ts";
import { checkRights, checkRightsThroughApi } from "./check_rights.ts";
import { type DatabaseTls, databaseTls, isUnproven } from "./database_tls.ts";

const JOBS = ["billing-worker", "billing-prune"];

/** Checks the connection to the database, and its migrations, rights and schedule. */
export async function* checkDatabase(
  { projectUrl, secretKey, dbUrl }: Pick<
    DoctorArguments,
    "projectUrl" | "secretKey" | "dbUrl"
  >,
  { here: { migrationFiles, env }, tools }: {
    here: Surroundings;
    tools: RequestTools;
  },
): Checks {
  if (dbUrl === undefined) {
    const needsUrl = skipped("needs SUPABASE_DB_URL");
    yield ["migrations", needsUrl];
    yield [
      "rights",
      projectUrl === undefined || secretKey === undefined
        ? skipped("needs SUPABASE_DB_URL, or the project and its secret key")
        : await checkRightsThroughApi(projectUrl, { secretKey, tools }),
    ];
    yield ["schedule", needsUrl];
    return;
  }
  let sql;
  try {
    const tls = await databaseTls(dbUrl, env);
    sql = await connect(tls);
    yield ["database", connected(tls)];
  } catch (error) {
    yield ["database", notConnected(error)];
    for (const name of ["migrations", "rights", "schedule"]) {
      yield [name, skipped("fix the database first")];
    }
    return;
  }
  try {
    yield ["migrations", await checkMigrations(sql, migrationFiles)];
    yield ["rights", await checkRights(sql)];
    yield [
      "schedule",
      projectUrl === undefined
        ? skipped("needs SUPABASE_URL")
        : await checkSchedule(sql, projectUrl),
    ];
  } finally {
    await sql.end();
  }
}

async function connect({ url, ssl }: DatabaseTls): Promise<postgres.Sql> {
  const sql = postgres(url, {
    max: 1,
    connect_timeout: 10,
    // A pooler in transaction mode keeps no prepared statement.
    prepare: false,
    ssl,
    onnotice() {},
  });
  try {
    await sql`select 1`;
    return sql;
  } catch (error) {
    await sql.end();
    throw error;
  }
}

function connected({ ssl }: DatabaseTls): Check {
  return ok(
    ssl !== false && !ssl.rejectUnauthorized
      ? "answers; its certificate was not verified (sslmode=require)"
      : "answers",
  );
}

/** Reports why there is no connection, and what to do about it. */
export function notConnected(error: unknown): Check {
  const { message, code = "" } = error as Error & { code?: string };
  if (/^(?:CONNECT_TIMEOUT|ECONNREFUSED|57P0[1-5])$/.test(code)) {
    return failed(
      `does not answer: ${message}`,
      "Check in the dashboard that the project is not paused and its database is healthy, and https://status.supabase.com. If no command could ever connect, copy the URL from Connect",
    );
  }
  return isUnproven(error)
    ? failed(
      `its certificate cannot be verified, so the password was not sent: ${message}`,
      "Download the root certificate (dashboard, Database, Settings, SSL Configuration), and set PGSSLROOTCERT to the file",
    )
    : failed(
      `cannot connect: ${message}`,
      "Copy the URL from Connect in the dashboard, and insert the database's password",
    );
}

/** Checks that the jobs exist that wake this project's worker and prune. */
async function checkSchedule(
  sql: postgres.Sql,
  projectUrl: string,
): Promise<Check> {
  const todo =
    `In the SQL editor: select public.schedule_billing_worker('${projectUrl}', 'sb_secret_...');`;
  const [has] = await sql`
    select
      to_regclass('cron.job') is not null as cron,
      to_regproc('net.http_post') is not null as net,
      to_regclass('vault.decrypted_secrets') is not null as vault`;
  if (!has?.cron) {
    return isLoopback(projectUrl)
      ? skipped(`the local stack wakes the worker itself (${asTyped("start")})`)
      : failed("pg_cron is not installed", todo);
  }
  const rows = await sql`
    select jobname from cron.job where active and jobname in ${sql(JOBS)}`;
  const found = rows.map(({ jobname }) => jobname);
  const missing = JOBS.filter((job) => !found.includes(job));
  if (missing.length > 0) {
    return failed(`no active job ${missing.join(" and ")}`, todo);
  }
  // Disabling an extension leaves the job behind, which then wakes nothing.
  if (!has.net) return failed("pg_net is not installed", todo);
  if (!has.vault) return failed("Vault is not installed", todo);
  const [secret] = await sql`
    select decrypted_secret as url from vault.decrypted_secrets
    where name = 'billing_worker_url'`;
  return secret?.url === `${projectUrl}/functions/v1/billing-worker`
    ? ok("wakes the worker every minute and prunes old rows")
    : failed(
      `wakes ${secret?.url ?? "nothing"} instead of this project's worker`,
      todo,
    );
}
