import { type RequestTools, sendRequest } from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import { type Check, type Checks, failed, ok, skipped } from "./check.ts";
import { checkNotifications } from "./check_notifications.ts";
import { instructionsFor } from "./instructions.ts";
import { readApi } from "./read_api.ts";

const WORKER = "billing-worker";
const NEEDS_KEY = skipped("needs SUPABASE_SECRET_KEY");

/** Checks the worker, and through the REST API what failed. */
export async function* checkProject(
  { projectUrl, secretKey }: Pick<DoctorArguments, "projectUrl" | "secretKey">,
  tools: RequestTools,
): Checks {
  if (projectUrl === undefined) {
    for (
      const name of ["worker", "worker's key", "failures", "notifications"]
    ) {
      yield [name, skipped("needs SUPABASE_URL")];
    }
    return;
  }
  const workerUrl = `${projectUrl}/functions/v1/billing-worker`;
  const worker = await checkWorkerRefuses(workerUrl, tools);
  yield ["worker", worker];
  yield [
    "worker's key",
    worker.state === "FAIL"
      ? skipped("fix the worker first")
      : await checkWorkerAccepts(workerUrl, { secretKey, tools }),
  ];
  const access = { secretKey, tools };
  yield ["failures", await checkFailures(projectUrl, access)];
  yield [
    "notifications",
    secretKey === undefined
      ? NEEDS_KEY
      : await checkNotifications(projectUrl, { secretKey, tools }),
  ];
}

/** Checks that the worker runs, and refuses a call without a key. */
export async function checkWorkerRefuses(
  workerUrl: string,
  tools: RequestTools,
): Promise<Check> {
  const { deploy, log, reach } = instructionsFor(workerUrl);
  const reply = await sendRequest(workerUrl, { method: "POST" }, tools);
  if ("fault" in reply) {
    return failed(`cannot reach ${workerUrl}: ${reply.fault}`, reach);
  }
  const { status, headers } = reply;
  if (status === 404) {
    return failed(
      "answered 404",
      `If the project's URL is right, ${deploy(WORKER)}`,
    );
  }
  if (status >= 500) {
    return failed(
      `answered ${status}: the worker does not start`,
      `The first lines of its log name the setting (${log(WORKER)})`,
    );
  }
  if (status !== 401) {
    return failed(
      `answered ${status} instead of 401 to a call without a key`,
      `If the project's URL is right, ${deploy(WORKER)}`,
    );
  }
  // @supabase/server names its refusals in this header. Supabase's gateway does
  // not, and it would also refuse the schedule's key.
  return headers.has("x-supabase-server-error")
    ? ok("refuses a call without a key with 401")
    : failed(
      "refused with 401 by Supabase's key check, before it reached the worker",
      `Keep "verify_jwt = false" in supabase/config.toml, and ${
        deploy(WORKER)
      }`,
    );
}

/** Checks that the worker accepts the key with which the schedule wakes it. */
export async function checkWorkerAccepts(
  workerUrl: string,
  { secretKey, tools }: { secretKey: string | undefined; tools: RequestTools },
): Promise<Check> {
  if (secretKey === undefined) return NEEDS_KEY;
  const instructions = instructionsFor(workerUrl);
  const reply = await sendRequest(workerUrl, {
    method: "POST",
    headers: { apikey: secretKey },
  }, tools);
  if ("fault" in reply) {
    return failed(
      `no answer: ${reply.fault}`,
      "Run this again; if it fails again, look at the function's log",
    );
  }
  if (reply.status === 200) return ok("does a turn for the secret key");
  if (reply.status === 503) {
    return failed(
      "answered 503: the database does not answer the worker",
      instructions.database,
    );
  }
  return reply.status === 401
    ? failed("refuses the secret key", instructions.secretKey)
    : failed(
      `answered ${reply.status}`,
      `Its log has the reason (${
        instructions.log(WORKER)
      }). If a database function is missing: ${instructions.migrate}`,
    );
}

/** Checks that no failed event is open. */
export async function checkFailures(
  projectUrl: string,
  { secretKey, tools }: { secretKey: string | undefined; tools: RequestTools },
): Promise<Check> {
  if (secretKey === undefined) return NEEDS_KEY;
  const reply = await readApi<Health>(
    `${projectUrl}/rest/v1/billing_health`,
    { secretKey, tools },
  );
  if ("refusal" in reply) return reply.refusal;
  const [health] = reply.rows;
  return health?.open_failures === 0 ? ok("none is open") : failed(
    `${health?.open_failures} open, the oldest since ${health?.oldest_open_failure}`,
    "select * from billing.open_failures; docs/runbook.md says what to do for each error code",
  );
}

interface Health {
  readonly open_failures: number;
  readonly oldest_open_failure: string | null;
}
