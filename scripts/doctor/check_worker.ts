import { type Finding, ok, red, skipped } from "./finding.ts";
import { probe, type Tools } from "./probe.ts";

const DEPLOY = "supabase functions deploy billing-worker --use-api";

/** Whether the worker is there, and refuses who has no key. */
export async function checkWorkerRefuses(
  workerUrl: string,
  tools: Tools,
): Promise<Finding> {
  const answer = await probe(workerUrl, { init: { method: "POST" }, tools });
  if ("fault" in answer) {
    return red(
      `${workerUrl} cannot be reached: ${answer.fault}`,
      "Compare SUPABASE_URL with the project's URL in the dashboard",
    );
  }
  const { status, headers } = answer;
  if (status === 404) return red("answered 404", DEPLOY);
  if (status >= 500) {
    return red(
      `answered ${status}: it does not start`,
      "The first lines of its log name the setting (dashboard, Edge Functions, billing-worker, Logs)",
    );
  }
  if (status !== 401) {
    return red(`answered ${status} to a stranger, not 401`, DEPLOY);
  }
  // @supabase/server names its refusals in this header; Supabase's gateway,
  // which would lock the schedule's key out as well, does not.
  return headers.has("x-supabase-server-error")
    ? ok("refuses with 401 who has no key")
    : red(
      "refuses with 401, but Supabase does so before it",
      `Keep "verify_jwt = false" in supabase/config.toml, and deploy from the repository's root: ${DEPLOY}`,
    );
}

/** Whether the worker takes the key that the schedule wakes it with. */
export async function checkWorkerAccepts(
  workerUrl: string,
  { secretKey, tools }: { secretKey: string | undefined; tools: Tools },
): Promise<Finding> {
  if (secretKey === undefined) return skipped("needs SUPABASE_SECRET_KEY");
  const answer = await probe(workerUrl, {
    init: { method: "POST", headers: { apikey: secretKey } },
    tools,
  });
  if ("fault" in answer) {
    return red(
      `no answer: ${answer.fault}`,
      "Run this again; if it stays so, look at the function's log",
    );
  }
  if (answer.status === 200) return ok("does a turn for the secret key");
  return answer.status === 401
    ? red(
      "refuses the secret key",
      "Take one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
    )
    : red(
      `answered ${answer.status}`,
      "Its log says why (dashboard, Edge Functions, billing-worker, Logs); supabase db push --remote, if a function is missing",
    );
}
