import { restRefusal } from "../common/rest_refusal.ts";
import { type RequestTools, sendRequest } from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import { type Check, failed, ok, skipped } from "./check.ts";
import { restHeaders } from "./check_project.ts";

/**
 * Checks that the provider's test subscriptions are not recorded beside its live
 * ones. The mode that the deployment has set cannot be asked for, only what it
 * let in.
 */
export async function checkModes(
  { projectUrl, secretKey, provider }: Pick<
    DoctorArguments,
    "projectUrl" | "secretKey" | "provider"
  >,
  tools: RequestTools,
): Promise<Check> {
  if (projectUrl === undefined) return skipped("needs SUPABASE_URL");
  if (secretKey === undefined) return skipped("needs SUPABASE_SECRET_KEY");
  const headers = restHeaders(secretKey);
  const recorded: Record<"live" | "test", boolean> = {
    live: false,
    test: false,
  };
  for (const mode of ["live", "test"] as const) {
    const query = new URLSearchParams({
      select: "id",
      provider: `eq.${provider}`,
      livemode: `is.${mode === "live"}`,
      limit: "1",
    });
    const url = `${projectUrl}/rest/v1/subscriptions?${query}`;
    const reply = await sendRequest(url, { headers }, tools);
    if ("fault" in reply) {
      return failed(
        `cannot reach the REST API: ${reply.fault}`,
        "Check the project's URL (SUPABASE_URL or --project-url)",
      );
    }
    // The column does not exist before the migrations of this version.
    if (reply.status === 400) {
      return failed(
        "the records do not say their mode",
        "supabase db push --remote",
      );
    }
    if (reply.status !== 200) return failed(...restRefusal(reply.status));
    recorded[mode] = JSON.parse(reply.body).length > 0;
  }
  const setting = `PROVIDER_${provider.toUpperCase()}_MODE=live`;
  if (recorded.live && recorded.test) {
    return failed(
      "test subscriptions are recorded beside live ones",
      `supabase secrets set ${setting}, then delete the test records: docs/stripe.md, "Live and test events"`,
    );
  }
  if (recorded.live) return ok("all recorded subscriptions are live");
  return recorded.test
    ? ok(`only test subscriptions; before real payments, set ${setting}`)
    : ok("no recorded subscription says its mode yet");
}
