import { isPublished } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { settingsPrefix } from "../../supabase/functions/billing-webhook/providers.ts";
import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  type ProviderName,
  providerSettings,
} from "../common/provider_settings.ts";
import {
  type NoReply,
  type Reply,
  type RequestTools,
  sendRequest,
} from "../common/send_request.ts";
import { signatureHeaders } from "../common/sign.ts";
import type { DoctorArguments } from "./arguments.ts";
import { type Check, type Checks, failed, ok, skipped } from "./check.ts";
import { instructionsFor } from "./instructions.ts";

/** Far more than a network adds, far less than the 300 s of a signature. */
const MAX_SKEW_SECONDS = 30;

const WEBHOOK = "billing-webhook";

/** Checks the receiver at its public URL, as a provider reaches it. */
export async function* checkWebhook(
  { url, provider }: Pick<DoctorArguments, "url" | "provider">,
  { env, tools }: { env: Environment; tools: RequestTools },
): Checks {
  const unsigned = await sendRequest(
    url,
    { method: "POST", body: "{}" },
    tools,
  );
  const endpoint = checkEndpoint(unsigned, { url });
  yield ["endpoint", endpoint];
  if ("fault" in unsigned || endpoint.state === "FAIL") {
    for (const name of ["unsigned event", "clock", "signed event"]) {
      yield [name, skipped("fix the endpoint first")];
    }
    return;
  }
  yield ["unsigned event", checkUnsigned(unsigned, { url })];
  yield ["clock", checkClock(unsigned)];
  yield ["signed event", await checkSigned({ url, provider, env }, tools)];
}

/** Checks that something answers that can be the receiver. */
export function checkEndpoint(
  reply: Reply | NoReply,
  { url }: { url: string },
): Check {
  if ("fault" in reply) {
    return failed(
      `cannot reach ${url}: ${reply.fault}`,
      isLoopback(url)
        ? instructionsFor(url).reach
        : "Compare its project ref with the dashboard, and check that the project is not paused",
    );
  }
  const { status, startedAtMs, endedAtMs } = reply;
  if (status === 404) {
    return failed(
      `${url} answered 404`,
      `If its path is /functions/v1/billing-webhook, ${
        instructionsFor(url).deploy(WEBHOOK)
      }`,
    );
  }
  if (status >= 300 && status < 400) {
    return failed(
      `${url} answered ${status}, a redirect, which providers do not follow`,
      "Register the URL that it redirects to, with https",
    );
  }
  return ok(`${url} answers (${endedAtMs - startedAtMs} ms)`);
}

/** Checks that an event without a signature is refused by the receiver. */
export function checkUnsigned(
  { status, body }: Pick<Reply, "status" | "body">,
  { url }: { url: string },
): Check {
  const { deploy, log } = instructionsFor(url);
  if (status === 401 && body === "Invalid signature") {
    return ok(
      "refused with 401; the signature_missing in the receiver's log is this check's",
    );
  }
  if (status === 401) {
    return failed(
      "refused with 401 by Supabase's key check, before it reached the receiver",
      `Keep "verify_jwt = false" in supabase/config.toml, and ${
        deploy(WEBHOOK)
      }`,
    );
  }
  if (status >= 500) {
    return failed(
      `answered ${status}: the function does not start`,
      `The first lines of its log name what is missing (${log(WEBHOOK)})`,
    );
  }
  return failed(
    `answered ${status} instead of 401: this is not the receiver`,
    "Check what runs at this URL; a rewrite in front of the receiver must lead to /functions/v1/billing-webhook",
  );
}

/** Checks that this machine and the endpoint agree on the time. */
export function checkClock(
  { headers, startedAtMs, endedAtMs }: Pick<
    Reply,
    "headers" | "startedAtMs" | "endedAtMs"
  >,
): Check {
  // RFC 9110, section 6.6.1: in whole seconds.
  const dateMs = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(dateMs)) return skipped("the answer has no Date header");
  const aheadMs = Math.max(0, startedAtMs - (dateMs + 1000));
  const behindMs = Math.max(0, dateMs - endedAtMs);
  const seconds = Math.round(Math.max(aheadMs, behindMs) / 1000);
  if (seconds <= MAX_SKEW_SECONDS) {
    return ok(`within ${Math.max(seconds, 1)} s of this machine's`);
  }
  return failed(
    `this machine's clock is ${seconds} s ${
      aheadMs > 0 ? "ahead of" : "behind"
    } the endpoint's`,
    "Synchronize it (timedatectl set-ntp true): the receiver refuses signatures that are off by more than SIGNATURE_TOLERANCE_SECONDS",
  );
}

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
          deploy(WEBHOOK)
        }`
        : `Set ${prefix}SIGNING_SECRET, ${prefix}SIGNATURE_HEADER and ${prefix}SIGNATURE_SCHEME for this command as in the deployment; if they are equal, check the clock above, then run supabase secrets set again`;
    case 500:
      return isLocal
        ? `The local stack's secret is missing, weak or malformed: set ${prefix}SIGNING_SECRET in supabase/functions/.env, then ${
          deploy(WEBHOOK)
        }`
        : `The deployment's secret is missing, weak or malformed: set ${prefix}SIGNING_SECRET with supabase secrets set`;
    default:
      return `The function's log has the reason (${log(WEBHOOK)})`;
  }
}
