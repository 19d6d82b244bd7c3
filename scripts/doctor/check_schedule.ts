import type postgres from "postgres";
import { type Finding, ok, red, skipped } from "./finding.ts";
import { isLoopback } from "../common/loopback.ts";

const JOBS = ["billing-worker", "billing-prune"];

/** Whether something wakes the worker of this project, and prunes. */
export async function checkSchedule(
  sql: postgres.Sql,
  { projectUrl }: { projectUrl: string },
): Promise<Finding> {
  const todo =
    `In the SQL editor: select public.schedule_billing_worker('${projectUrl}', 'sb_secret_...');`;
  const [has] = await sql`
    select
      to_regclass('cron.job') is not null as cron,
      to_regproc('net.http_post') is not null as net,
      to_regclass('vault.decrypted_secrets') is not null as vault`;
  if (!has?.cron) {
    return isLoopback(projectUrl)
      ? skipped("the local stack wakes the worker itself (deno task start)")
      : red("pg_cron is not there", todo);
  }
  const rows = await sql`
    select jobname from cron.job where active and jobname in ${sql(JOBS)}`;
  const found = rows.map(({ jobname }) => jobname);
  const missing = JOBS.filter((job) => !found.includes(job));
  if (missing.length > 0) {
    return red(`no active job ${missing.join(" and ")}`, todo);
  }
  // Whoever switches one of them off leaves the job, which then wakes nobody.
  if (!has.net) return red("pg_net is off", todo);
  if (!has.vault) return red("Vault is off", todo);
  const [secret] = await sql`
    select decrypted_secret as url from vault.decrypted_secrets
    where name = 'billing_worker_url'`;
  return secret?.url === `${projectUrl}/functions/v1/billing-worker`
    ? ok("the worker is woken every minute, old rows are pruned")
    : red(
      `it wakes ${secret?.url ?? "nobody"}, not this project's worker`,
      todo,
    );
}
