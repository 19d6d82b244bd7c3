import { settingsPrefix } from "../../supabase/functions/billing-webhook/providers.ts";
import { isLoopback } from "../common/loopback.ts";
import type { RequestTools } from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import { type Check, failed, ok, skipped } from "./check.ts";
import { readApi } from "./read_api.ts";

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
    const reply = await readApi(url, { secretKey, tools });
    if ("refusal" in reply) return reply.refusal;
    recorded[mode] = reply.rows.length > 0;
  }
  const setting = `${settingsPrefix(provider)}MODE=live`;
  if (recorded.live && recorded.test) {
    return failed(
      "test subscriptions are recorded beside live ones",
      `${
        isLoopback(projectUrl)
          ? `Set ${setting} in supabase/functions/.env`
          : `supabase secrets set ${setting}`
      }, then delete the test records: docs/stripe.md, "Live and test events"`,
    );
  }
  if (recorded.live) return ok("all recorded subscriptions are live");
  return recorded.test
    ? ok(`only test subscriptions; before real payments, set ${setting}`)
    : ok("no recorded subscription says its mode yet");
}
