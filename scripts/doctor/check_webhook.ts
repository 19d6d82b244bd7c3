import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  type NoReply,
  type Reply,
  type RequestTools,
  sendRequest,
} from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import { type Check, type Checks, failed, ok, skipped } from "./check.ts";
import { checkSigned } from "./check_signed_event.ts";
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
