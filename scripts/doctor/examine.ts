import type { Environment } from "../common/environment.ts";
import type { DoctorArguments } from "./arguments.ts";
import { checkClock } from "./check_clock.ts";
import { checkEndpoint } from "./check_endpoint.ts";
import { checkFailures } from "./check_failures.ts";
import { checkMigrations } from "./check_migrations.ts";
import { checkSchedule } from "./check_schedule.ts";
import { checkSigned } from "./check_signed.ts";
import { checkUnsigned } from "./check_unsigned.ts";
import { checkWorkerAccepts, checkWorkerRefuses } from "./check_worker.ts";
import { connectTo } from "./connect.ts";
import { type DatabaseTls, databaseTls, isUnproven } from "./database_tls.ts";
import { type Finding, ok, red, skipped } from "./finding.ts";
import { probe, type Tools } from "./probe.ts";

/** What is on this machine: settings, and the names of the migrations. */
export interface Surroundings {
  readonly env: Environment;
  readonly migrationFiles: readonly string[];
}

/** Findings by what was looked at, as they come. */
export type Findings = AsyncGenerator<readonly [name: string, Finding]>;

/**
 * Looks at a deployment from the outside inwards. It stores nothing; with the
 * secret key the worker does a turn, as it does every minute anyway.
 */
export async function* examine(
  target: DoctorArguments,
  { here, tools }: { here: Surroundings; tools: Tools },
): Findings {
  yield* examineWebhook(target, { here, tools });
  yield* examineProject(target, tools);
  yield* examineDatabase(target, here);
}

async function* examineWebhook(
  { url, provider }: DoctorArguments,
  { here, tools }: { here: Surroundings; tools: Tools },
): Findings {
  const init = { method: "POST", body: "{}" };
  const answer = await probe(url, { init, tools });
  const endpoint = checkEndpoint(answer, { url });
  yield ["endpoint", endpoint];
  if ("fault" in answer || endpoint.state === "red") {
    for (const name of ["unsigned event", "clock", "signed event"]) {
      yield [name, skipped("mend the endpoint first")];
    }
    return;
  }
  yield ["unsigned event", checkUnsigned(answer)];
  yield ["clock", checkClock(answer)];
  yield [
    "signed event",
    await checkSigned({ url, provider, env: here.env }, tools),
  ];
}

async function* examineProject(
  { projectUrl, secretKey }: DoctorArguments,
  tools: Tools,
): Findings {
  if (projectUrl === undefined) {
    for (const name of ["worker", "worker's key", "failures"]) {
      yield [name, skipped("needs SUPABASE_URL")];
    }
    return;
  }
  const workerUrl = `${projectUrl}/functions/v1/billing-worker`;
  const worker = await checkWorkerRefuses(workerUrl, tools);
  yield ["worker", worker];
  yield [
    "worker's key",
    worker.state === "red"
      ? skipped("mend the worker first")
      : await checkWorkerAccepts(workerUrl, { secretKey, tools }),
  ];
  yield ["failures", await checkFailures(projectUrl, { secretKey, tools })];
}

async function* examineDatabase(
  { projectUrl, dbUrl }: DoctorArguments,
  { migrationFiles: files, env }: Surroundings,
): Findings {
  const others = ["migrations", "schedule"];
  if (dbUrl === undefined) {
    for (const name of others) yield [name, skipped("needs SUPABASE_DB_URL")];
    return;
  }
  let sql;
  try {
    const tls = await databaseTls(dbUrl, env);
    sql = await connectTo(tls);
    yield ["database", answers(tls)];
  } catch (error) {
    yield ["database", notConnected(error)];
    for (const name of others) yield [name, skipped("mend the database first")];
    return;
  }
  try {
    yield ["migrations", await checkMigrations(sql, { files })];
    yield [
      "schedule",
      projectUrl === undefined
        ? skipped("needs SUPABASE_URL")
        : await checkSchedule(sql, { projectUrl }),
    ];
  } finally {
    await sql.end();
  }
}

function answers({ ssl }: DatabaseTls): Finding {
  return ok(
    ssl !== false && !ssl.rejectUnauthorized
      ? "answers; whether it is the project's was not verified (sslmode=require)"
      : "answers",
  );
}

function notConnected(error: unknown): Finding {
  const { message } = error as Error;
  return isUnproven(error)
    ? red(
      `its certificate cannot be verified, so the password was not sent: ${message}`,
      "Download the root certificate (dashboard, Database, Settings, SSL Configuration), and name the file in PGSSLROOTCERT",
    )
    : red(
      `cannot be reached: ${message}`,
      "Take the address under Connect in the dashboard, with the database's password",
    );
}
