import type postgres from "postgres";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { type Check, failed, ok, skipped } from "./check.ts";
import { instructionsFor } from "./instructions.ts";

const JOBS = ["billing-worker", "billing-prune"];

/** Checks that the jobs exist that wake this project's worker and prune. */
export async function checkSchedule(
  sql: postgres.Sql,
  projectUrl: string,
): Promise<Check> {
  const todo = instructionsFor(projectUrl).query(
    `select billing.schedule_worker('${projectUrl}', 'sb_secret_...');`,
  );
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
