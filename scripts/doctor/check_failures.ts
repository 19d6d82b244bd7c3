import { restRefusal } from "../common/rest_refusal.ts";
import { type Finding, ok, red, skipped } from "./finding.ts";
import { probe, type Tools } from "./probe.ts";

/** Whether events have failed that nobody has settled yet. */
export async function checkFailures(
  projectUrl: string,
  { secretKey, tools }: { secretKey: string | undefined; tools: Tools },
): Promise<Finding> {
  if (secretKey === undefined) return skipped("needs SUPABASE_SECRET_KEY");
  const answer = await probe(`${projectUrl}/rest/v1/billing_health`, {
    init: {
      headers: secretKey.startsWith("sb_")
        ? { apikey: secretKey }
        : { apikey: secretKey, authorization: `Bearer ${secretKey}` },
    },
    tools,
  });
  if ("fault" in answer) {
    return red(
      `the REST API cannot be reached: ${answer.fault}`,
      "Compare SUPABASE_URL with the project's URL in the dashboard",
    );
  }
  if (answer.status !== 200) return red(...restRefusal(answer.status));
  const [health] = JSON.parse(answer.body) as [
    { open_failures: number; oldest_open_failure: string | null },
  ];
  return health.open_failures === 0 ? ok("none is open") : red(
    `${health.open_failures} open, the oldest since ${health.oldest_open_failure}`,
    "select * from public.open_failures; docs/runbook.md says what to do by error code",
  );
}
