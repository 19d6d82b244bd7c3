import { type Finding, ok, red, skipped } from "./finding.ts";
import type { Answer } from "./probe.ts";

/** Far beyond what a network adds, far within the 300 s of a signature. */
const MAX_SKEW_SECONDS = 30;

/** Whether this machine and the endpoint agree on the time. */
export function checkClock(
  { headers, startedAt, endedAt }: Pick<
    Answer,
    "headers" | "startedAt" | "endedAt"
  >,
): Finding {
  // RFC 9110, section 6.6.1: in whole seconds.
  const date = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(date)) return skipped("the answer has no Date header");
  const ahead = Math.max(0, startedAt - (date + 1000));
  const behind = Math.max(0, date - endedAt);
  const seconds = Math.round(Math.max(ahead, behind) / 1000);
  if (seconds <= MAX_SKEW_SECONDS) {
    return ok(`within ${Math.max(seconds, 1)} s of this machine's`);
  }
  return red(
    `this machine's is ${seconds} s ${
      ahead > 0 ? "ahead of" : "behind"
    } the endpoint's`,
    "Set it by the network (timedatectl set-ntp true): more than SIGNATURE_TOLERANCE_SECONDS apart, signatures are refused",
  );
}
