import { isPublished } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { settingsPrefix } from "../../supabase/functions/billing-webhook/providers.ts";
import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  type ProviderName,
  providerSettings,
} from "../common/provider_settings.ts";
import { type RequestTools, sendRequest } from "../common/send_request.ts";
import { signatureHeaders } from "../common/sign.ts";
import { type Check, failed, ok, skipped } from "./check.ts";
import { instructionsFor } from "./instructions.ts";

/**
 * Checks that an event with the provider's signature is acknowledged. The
 * receiver does not handle its type, so it stores nothing.
 */
export async function checkSigned(
  { url, provider, env }: {
    url: string;
    provider: ProviderName;
    env: Environment;
  },
  tools: RequestTools,
): Promise<Check> {
  const timestamp = Math.floor(tools.clock() / 1000);
  const body = JSON.stringify({
    id: `evt_doctor_${crypto.randomUUID()}`,
    object: "event",
    type: "doctor.ping",
    created: timestamp,
    data: { object: {} },
  });
  let headers: Record<string, string>;
  try {
    const settings = providerSettings(env, provider);
    // What stands in for a secret that is not set: no deployment accepts it.
    if (isPublished(settings.secret) && !isLoopback(url)) {
      return skipped(`needs ${settingsPrefix(provider)}SIGNING_SECRET`);
    }
    headers = signatureHeaders({ ...settings, body, timestamp });
  } catch (error) {
    return failed("not sent", (error as Error).message.replace(/\.$/, ""));
  }
  const reply = await sendRequest(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  }, tools);
  if ("fault" in reply) {
    return failed(
      `no answer: ${reply.fault}`,
      "Run this again; if it fails again, look at the function's log",
    );
  }
  return reply.status === 200 && reply.body === "OK"
    ? ok(`acknowledged with 200, for provider ${provider}`)
    : failed(
      `answered ${reply.status}`,
      signedTodo(reply.status, { provider, url }),
    );
}

function signedTodo(
  status: number,
  { provider, url }: { provider: ProviderName; url: string },
): string {
  const prefix = settingsPrefix(provider);
  const { log, deploy } = instructionsFor(url);
  const isLocal = isLoopback(url);
  switch (status) {
    case 401:
      return isLocal
        ? `Set ${prefix}SIGNING_SECRET, ${prefix}SIGNATURE_HEADER and ${prefix}SIGNATURE_SCHEME in supabase/functions/.env, which this command reads too, and in no terminal's environment; then ${
          deploy("billing-webhook")
        }`
        : `Set ${prefix}SIGNING_SECRET, ${prefix}SIGNATURE_HEADER and ${prefix}SIGNATURE_SCHEME for this command as in the deployment; if they are equal, check the clock above, then run supabase secrets set again`;
    case 500:
      return isLocal
        ? `The local stack's secret is missing, weak or malformed: set ${prefix}SIGNING_SECRET in supabase/functions/.env, then ${
          deploy("billing-webhook")
        }`
        : `The deployment's secret is missing, weak or malformed: set ${prefix}SIGNING_SECRET with supabase secrets set`;
    default:
      return `The function's log has the reason (${log("billing-webhook")})`;
  }
}
