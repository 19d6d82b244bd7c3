import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import {
  type Format,
  kindOf,
} from "../../supabase/functions/_shared/billing/events/format.ts";
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { asTyped } from "../common/environment.ts";
import { nextStep } from "../common/next_step.ts";
import { eventTypesOf } from "../events/provider_events.ts";
import type { TriggerArguments } from "./arguments.ts";
import type { Result } from "./result.ts";

type Answer = Omit<Result, "lines"> & { readonly status: number };

/** Returns what to do next. */
export function advice(
  answer: Answer,
  sent: TriggerArguments,
): readonly string[] {
  const { status, errorCode = "" } = answer;
  if (status >= 200 && status <= 299) return afterSuccess(answer, sent);

  const lines: string[] = [];
  if (status === 401 && sent.format !== "stripe") {
    const setting = `${settingsPrefix(sent.provider)}FORMAT=${sent.format}`;
    lines.push(`The receiver needs ${setting}: docs/providers.md.`);
  }
  const todo = nextStep(errorCode, sent.provider);
  if (todo) lines.push(`${errorCode}: ${todo}`);
  // With a code, the failure's row was printed, and has the reason.
  if (!errorCode) return [...lines, "The receiver's log has the reason."];

  if (/^(?:subscription_unknown|creation_pending)$/.test(errorCode)) {
    lines.push(`  ${creationOf(sent.format)}, with the same options`);
  }
  return [
    ...lines,
    "The event is in billing.failed_events.",
    "To repair it (docs/operate.md has the SQL):",
    `  ${asTyped("console")}${projectOption(sent.url)}`,
  ];
}

function afterSuccess(
  { isClaimed }: Answer,
  sent: TriggerArguments,
): readonly string[] {
  const format: Format = FORMATS[sent.format];
  const type = "type" in sent.source ? sent.source.type : undefined;
  const takesEffect = (kindOf(format, type) ?? "notice") !== "notice";
  if (type === undefined || takesEffect || isClaimed) return [];

  const notice = format.notices?.[type];
  const handler = handlerName(type);
  return [
    notice
      ? `To notify the account of it, add ${notice} to NOTIFY: docs/notifications.md.`
      : `To handle this type, add it to HANDLE_EVENT_TYPES, and create the function billing.${handler}: docs/handlers.md.`,
  ];
}

function projectOption(url = ""): string {
  const { origin, pathname = "" } = URL.parse(url) ?? {};
  return pathname.startsWith("/functions/v1/")
    ? ` --project-url ${origin}`
    : "";
}

function creationOf(format: FormatName): string {
  const type = eventTypesOf(format).find((type) =>
    /^(?:creation|opening_update)$/.test(kindOf(FORMATS[format], type) ?? "")
  );
  return asTyped(`trigger ${type}`);
}
