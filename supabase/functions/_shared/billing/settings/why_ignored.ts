import { type Format, kindOf } from "../events/format.ts";
import type { ParsedEvent } from "../events/parse_event.ts";
import { settingsPrefix } from "./providers.ts";

/** Returns why an event has no effect, and which settings to check; repeats no data. */
export function whyIgnored(
  { reason, type }: ParsedEvent & { readonly isIgnored: true },
  { provider, format }: { provider: string; format: Format },
): string {
  const prefix = settingsPrefix(provider);
  switch (reason) {
    case "other_mode":
      return `Its mode is ignored: check ${prefix}MODE`;
    case "connect":
      return `Connected accounts are ignored: check ${prefix}CONNECT`;
    case "no_subscription":
      return "It names no subscription: check HANDLE_EVENT_TYPES";
    case "not_handled":
    case "thin": {
      let setting = "";
      if (kindOf(format, type) === "notice") setting = "NOTIFY, ";
      if (type === format.checkout?.type) setting = "ACCOUNT_FROM_CHECKOUT, ";
      return `Its type is not handled: check ${setting}HANDLE_EVENT_TYPES, ${prefix}FORMAT`;
    }
  }
}
