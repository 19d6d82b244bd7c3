import { type Finding, ok, red } from "./finding.ts";
import { isLoopback } from "../common/loopback.ts";
import type { Answer, NoAnswer } from "./probe.ts";

/** Whether anything answers that could be the receiver. */
export function checkEndpoint(
  answer: Answer | NoAnswer,
  { url }: { url: string },
): Finding {
  if ("fault" in answer) {
    return red(
      `${url} cannot be reached: ${answer.fault}`,
      isLoopback(url)
        ? "Start the local stack: deno task start"
        : "Compare the project ref in it with the dashboard's; is the project paused?",
    );
  }
  const { status, startedAt, endedAt } = answer;
  if (status === 404) {
    return red(
      `${url} answered 404`,
      "Its path is /functions/v1/billing-webhook. If it is that: supabase functions deploy billing-webhook --use-api",
    );
  }
  if (status >= 300 && status < 400) {
    return red(
      `${url} answered ${status}, a redirect, which providers do not follow`,
      "Register the address that it leads to, https and all",
    );
  }
  return ok(`${url} answers (${endedAt - startedAt} ms)`);
}
