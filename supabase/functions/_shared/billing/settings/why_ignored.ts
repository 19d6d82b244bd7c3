import { type Format, kindOf } from "../events/format.ts";
import type { ParsedEvent } from "../events/parse_event.ts";
import { settingsPrefix } from "./providers.ts";

/** Says why an event has no effect, and by which settings; repeats nothing of the event. */
export function whyIgnored(
  { reason, type }: ParsedEvent & { readonly handled: false },
  { provider, format }: { provider: string; format: Format },
): string {
  const prefix = settingsPrefix(provider);
  switch (reason) {
    case "other_mode":
      return `It is of the other mode: look at ${prefix}MODE`;
    case "connect":
      return `It is of a connected account: look at ${prefix}CONNECT`;
    case "no_subscription":
      return "It names no subscription: look at HANDLE_EVENT_TYPES";
    case "not_handled":
    case "thin": {
      let first = "";
      if (kindOf(format, type) === "notice") first = "NOTIFY, ";
      if (type === format.checkout?.type) first = "ACCOUNT_FROM_CHECKOUT, ";
      return `Its type is not handled: look at ${first}HANDLE_EVENT_TYPES, ${prefix}FORMAT`;
    }
  }
}
