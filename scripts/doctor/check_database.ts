import postgres from "postgres";
import type { RequestTools } from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import {
  type Check,
  type CheckContext,
  type Checks,
  failed,
  ok,
  skipped,
} from "./check.ts";
import { checkMigration } from "./check_migration.ts";
import { checkSchedule } from "./check_schedule.ts";
import { type DatabaseTls, databaseTls, isUnproven } from "./database_tls.ts";
import { type Instructions, instructionsFor } from "./instructions.ts";
import { readApi } from "./read_api.ts";

/** The database's role may not read something. */
const INSUFFICIENT_PRIVILEGE = "42501";

/**
 * Checks that the REST API serves the database, then the connection to the
 * database itself, its migration and its schedule.
 */
export async function* checkDatabase(
  { projectUrl, secretKey, dbUrl }: Pick<
    DoctorArguments,
    "projectUrl" | "secretKey" | "dbUrl"
  >,
  { here: { publicNames, env }, tools }: {
    here: CheckContext;
    tools: RequestTools;
  },
): Checks {
  yield [
    "REST API",
    projectUrl === undefined
      ? skipped("needs SUPABASE_URL")
      : secretKey === undefined
      ? skipped("needs SUPABASE_SECRET_KEY")
      : await checkApi(projectUrl, { secretKey, tools }),
  ];
  if (dbUrl === undefined) {
    for (const name of ["migration", "schedule"]) {
      yield [name, skipped("needs SUPABASE_DB_URL")];
    }
    return;
  }
  const place = projectUrl ?? dbUrl;
  let sql;
  try {
    const tls = await databaseTls(dbUrl, env);
    sql = await connect(tls);
    yield ["database", connected(tls)];
  } catch (error) {
    yield ["database", notConnected(error, place)];
    for (const name of ["migration", "schedule"]) {
      yield [name, skipped("fix the database first")];
    }
    return;
  }
  const instructions = instructionsFor(place);
  const checks = {
    migration: () => checkMigration(sql, { names: publicNames, instructions }),
    schedule: () =>
      projectUrl === undefined
        ? skipped("needs SUPABASE_URL")
        : checkSchedule(sql, projectUrl),
  };
  try {
    for (const [name, check] of Object.entries(checks)) {
      yield [name, await attempt(check, instructions)];
    }
  } finally {
    await sql.end();
  }
}

/**
 * Checks that the REST API exposes schema public, and knows what the migration
 * creates there.
 */
export async function checkApi(
  projectUrl: string,
  access: { secretKey: string; tools: RequestTools },
): Promise<Check> {
  const reply = await readApi(`${projectUrl}/rest/v1/billing_health`, access);
  return "refusal" in reply
    ? reply.refusal
    : ok("exposes schema public, with the receiver's views and functions");
}

/** A query that fails is the result of its check, and ends no other. */
async function attempt(
  check: () => Check | Promise<Check>,
  { databaseUrl }: Instructions,
): Promise<Check> {
  try {
    return await check();
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    return failed(
      `cannot be checked: ${message}`,
      code === INSUFFICIENT_PRIVILEGE
        ? `The check needs the role postgres. ${databaseUrl}`
        : "Run this again; if it fails again, look at the database's log",
    );
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

/**
 * Reports why there is no connection, and what to do about it.
 *
 * @param url Of the project, or else of the database.
 */
export function notConnected(error: unknown, url: string): Check {
  const { database, databaseUrl } = instructionsFor(url);
  const { message, code = "" } = error as Error & { code?: string };
  if (/^(?:CONNECT_TIMEOUT|ECONNREFUSED|57P0[1-5])$/.test(code)) {
    return failed(
      `does not answer: ${message}`,
      `${database}. If no command could ever connect, the URL is wrong. ${databaseUrl}`,
    );
  }
  return isUnproven(error)
    ? failed(
      `its certificate cannot be verified, so the password was not sent: ${message}`,
      "Download the root certificate (dashboard, Database, Settings, SSL Configuration), and set PGSSLROOTCERT to the file",
    )
    : failed(
      `cannot connect: ${message}`,
      `${databaseUrl}, with the database's password`,
    );
}
