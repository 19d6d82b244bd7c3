import { type Finding, ok, red } from "./finding.ts";
import type { Answer } from "./probe.ts";

/** Whether an event without a signature is refused, and by the receiver. */
export function checkUnsigned({ status, body }: Answer): Finding {
  if (status === 401 && body === "Invalid signature") {
    return ok("refused with 401");
  }
  if (status === 401) {
    return red(
      "refused with 401, but not by the receiver: Supabase asks for a key before it",
      'Keep "verify_jwt = false" in supabase/config.toml, and deploy from the repository\'s root: supabase functions deploy billing-webhook --use-api',
    );
  }
  if (status >= 500) {
    return red(
      `answered ${status}: the function does not start`,
      "The first lines of its log name what is missing (dashboard, Edge Functions, billing-webhook, Logs)",
    );
  }
  return red(
    `answered ${status}, not 401: this is not the receiver`,
    "Look at what answers under this address; a rewrite in front must lead to /functions/v1/billing-webhook",
  );
}
