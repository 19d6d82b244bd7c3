import { PING_TYPE } from "../../supabase/functions/billing-webhook/process_event.ts";
import { isPublished } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { isLoopback } from "../common/loopback.ts";
import { providerSettings, signatureHeaders } from "../common/sign.ts";
import type { Reply } from "../common/project_api.ts";
import {
  answerTo,
  check,
  Failed,
  type Findings,
  type Here,
  instructionsFor,
  notRefused,
  orSkip,
  Skipped,
  type Target,
} from "./check.ts";

/** Far above a network's delay, and below the 300 s that a signature lasts. */
const MAX_SKEW_SECONDS = 30;

export async function* checkEndpoint(target: Target, here: Here): Findings {
  const { url } = target;
  let unsigned: Reply | undefined;
  const reached = () => orSkip(unsigned, "fix the endpoint first");
  yield check("endpoint", async () => {
    unsigned = await sendUnsigned(url, here);
    return `${url} answers (${unsigned.endedAtMs - unsigned.startedAtMs} ms)`;
  });
  yield check("unsigned event", () => checkUnsigned(url, reached()));
  yield check("clock", () => checkClock(reached()));
  yield check(
    "signed event",
    () => reached() && checkAcknowledged(target, here),
  );
}

async function sendUnsigned(url: string, here: Here): Promise<Reply> {
  const { deploy, reach } = instructionsFor(url, "billing-webhook");
  const init = { method: "POST", body: "{}" };
  const reply = await answerTo(url, init, here, reach);
  const { status } = reply;
  if (status === 404) {
    throw new Failed(
      `${url} answered 404. If its path is /functions/v1/billing-webhook, ${deploy}`,
    );
  }
  if (status >= 300 && status < 400) {
    throw new Failed(
      `${url} answered ${status}, a redirect, which providers do not follow. Register the URL that it redirects to, with https`,
    );
  }
  return reply;
}

function checkUnsigned(url: string, reply: Reply): string {
  if (reply.status === 401 && reply.body === "Invalid signature") {
    return "refused with 401; this check caused the signature_missing in the receiver's log";
  }
  throw notRefused(reply, url, "billing-webhook");
}

function checkClock({ headers, startedAtMs, endedAtMs }: Reply): string {
  // The header has whole seconds (RFC 9110, section 6.6.1).
  const dateMs = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(dateMs)) throw new Skipped("the answer has no Date header");
  const aheadMs = Math.max(0, startedAtMs - (dateMs + 1000));
  const behindMs = Math.max(0, dateMs - endedAtMs);
  const seconds = Math.round(Math.max(aheadMs, behindMs) / 1000);
  if (seconds <= MAX_SKEW_SECONDS) {
    return `within ${Math.max(seconds, 1)} s of this machine's`;
  }

  const way = aheadMs > 0 ? "ahead of" : "behind";
  throw new Failed(
    `this machine's clock is ${seconds} s ${way} the endpoint's. Synchronize it (timedatectl set-ntp true)`,
  );
}

async function checkAcknowledged(target: Target, here: Here): Promise<string> {
  const { url, provider } = target;
  const prefix = settingsPrefix(provider);
  const init = orSkip(
    signedPing(target, here),
    `needs ${prefix}SIGNING_SECRET`,
  );
  const { status, body } = await answerTo(url, init, here);

  if (status === 200 && body === "OK") {
    return `acknowledged with 200, for provider ${provider}`;
  }
  const { log, set } = instructionsFor(url, "billing-webhook");
  const faults: Record<number, string> = {
    401:
      `answered 401. This command and the deployment need the same ${prefix}SIGNING_SECRET, ${prefix}FORMAT, ${prefix}SIGNATURE_HEADER and ${prefix}SIGNATURE_SCHEME: set them ${set}, and for this command. If they are equal, check the clock above`,
    500:
      `answered 500. The deployment's secret is missing, weak or malformed: set ${prefix}SIGNING_SECRET ${set}. Or HANDLE_EVENT_TYPES is wrong: see handlers below`,
  };
  throw new Failed(
    faults[status] ??
      `answered ${status}. The function's log has the reason (${log})`,
  );
}

function signedPing(
  { url, provider }: Target,
  here: Here,
): RequestInit | undefined {
  const timestamp = Math.floor(here.clock() / 1000);
  const body = JSON.stringify({
    id: `evt_doctor_${crypto.randomUUID()}`,
    object: "event",
    // The receiver handles this type in no format, and does not store it.
    type: PING_TYPE,
    event_type: PING_TYPE, // for Paddle
    meta: { event_name: PING_TYPE }, // for Lemon Squeezy
    created: timestamp,
    data: { object: {} },
  });

  try {
    const settings = providerSettings(here.env, provider);
    // Only a local stack accepts the published secret, its default.
    if (isPublished(settings.secret) && !isLoopback(url)) return undefined;
    const signature = signatureHeaders({ ...settings, body, timestamp });
    const headers = { "content-type": "application/json", ...signature };
    return { method: "POST", headers, body };
  } catch (error) {
    const { message } = error as Error;
    throw new Failed(`not sent. ${message.replace(/\.$/, "")}`);
  }
}
