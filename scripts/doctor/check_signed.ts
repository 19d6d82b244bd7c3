import { isPublished } from "../../supabase/functions/billing-webhook/local_stack.ts";
import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  type ProviderName,
  providerSettings,
} from "../common/provider_settings.ts";
import { signatureHeaders } from "../common/sign.ts";
import { type Finding, ok, red, skipped } from "./finding.ts";
import { probe, type Tools } from "./probe.ts";

/**
 * Whether an event that is signed as the provider does is acknowledged. Its
 * type is one that the receiver does not handle, so nothing is stored.
 */
export async function checkSigned(
  { url, provider, env }: {
    url: string;
    provider: ProviderName;
    env: Environment;
  },
  tools: Tools,
): Promise<Finding> {
  const timestamp = Math.floor(tools.now() / 1000);
  const body = JSON.stringify(pingEvent(timestamp));
  let headers: Record<string, string>;
  try {
    const settings = providerSettings(env, provider);
    // What stands in for a secret that is not set: no deployment takes it.
    if (isPublished(settings.secret) && !isLoopback(url)) {
      return skipped(`needs ${prefixOf(provider)}_SIGNING_SECRET`);
    }
    headers = await signatureHeaders({ ...settings, body, timestamp });
  } catch (error) {
    return red("not sent", (error as Error).message.replace(/\.$/, ""));
  }
  const answer = await probe(url, {
    init: {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    },
    tools,
  });
  if ("fault" in answer) {
    return red(
      `no answer: ${answer.fault}`,
      "Run this again; if it stays so, look at the function's log",
    );
  }
  if (answer.status === 200 && answer.body === "OK") {
    return ok(`acknowledged with 200, for provider ${provider}`);
  }
  return red(`answered ${answer.status}`, todoFor(answer.status, provider));
}

function pingEvent(created: number) {
  return {
    id: `evt_doctor_${crypto.randomUUID()}`,
    object: "event",
    type: "doctor.ping",
    created,
    data: { object: {} },
  };
}

function todoFor(status: number, provider: ProviderName): string {
  const name = prefixOf(provider);
  switch (status) {
    case 401:
      return `Set ${name}_SIGNING_SECRET, ${name}_SIGNATURE_HEADER and ${name}_SIGNATURE_SCHEME here as the deployment has them; if they are the same, look at the clock above, and set them anew with supabase secrets set`;
    case 500:
      return `Set ${name}_SIGNING_SECRET with supabase secrets set: it is missing, weak or malformed there`;
    default:
      return "The function's log says why (dashboard, Edge Functions, billing-webhook, Logs)";
  }
}

function prefixOf(provider: ProviderName): string {
  return `PROVIDER_${provider.toUpperCase()}`;
}
