import { handlerName } from "../../supabase/functions/_shared/billing/config.ts";
import {
  type Format,
  type Kind,
  kindOf,
} from "../../supabase/functions/_shared/billing/formats/format.ts";
import { FORMATS } from "../../supabase/functions/_shared/billing/formats/formats.ts";
import { asTyped, shellWord } from "../common/how_started.ts";
import { nextStep } from "../common/next_step.ts";
import { wrap } from "../common/print.ts";
import { eventTypesOf } from "../events/provider_events.ts";
import { defaultSubscription, type TriggerArguments } from "./arguments.ts";
import { MAX_COLUMNS, type Result } from "./result.ts";

/** The kinds that make a record. */
const CREATIONS: readonly Kind[] = ["creation", "opening_update"];

/** What usually happens to a subscription after an event. */
const NEXT: Readonly<Record<Kind, readonly Kind[]>> = {
  creation: ["update"],
  opening_update: ["update"],
  update: ["payment_failed"],
  payment_failed: ["deletion"],
  deletion: CREATIONS,
  notice: [],
};

/** What was sent, and where, if that is not the default. */
export type Sent = Pick<
  TriggerArguments,
  "provider" | "format" | "source" | "url"
>;

/** The status of an answer, with what could be read of its event in the database. */
type Answer = Omit<Result, "lines"> & { readonly status: number };

/** Returns lines that say what to do after an answer. */
export function advice(
  { status, errorCode = "", isClaimed }: Answer,
  sent: Sent,
): readonly string[] {
  const { source, provider } = sent;
  const type = "type" in source ? source.type : undefined;
  if (status < 200 || status > 299) {
    const todo = nextStep(errorCode, provider);
    return [
      ...wrap(
        todo ? `${errorCode}: ${todo}` : "The receiver's log has the reason.",
        MAX_COLUMNS,
      ),
      ...(type && /^(?:subscription_unknown|creation_pending)$/.test(errorCode)
        ? commands(CREATIONS, sent)
        : []),
      ...(errorCode
        ? [
          "The event is in billing.failed_events.",
          `To repair it: ${asTyped("console")}, or docs/operate.md for SQL`,
        ]
        : []),
    ];
  }
  const format: Format = FORMATS[sent.format];
  const kind = kindOf(format, type);
  if (kind !== undefined && kind !== "notice") {
    return commands(NEXT[kind], sent).map((next) => `Next: ${next}`);
  }
  if (type === undefined || isClaimed) return [];
  const notice = format.notices?.[type];
  return wrap(
    notice
      ? `To notify the account of it, add ${notice} to NOTIFY: docs/notifications.md.`
      : `To handle this type, add it to HANDLE_EVENT_TYPES, and create the function billing.${
        handlerName(type)
      }: docs/handlers.md.`,
    MAX_COLUMNS,
  );
}

/** Returns the command that sends an event of one of the kinds to the same place. */
function commands(
  kinds: readonly Kind[],
  { provider, format, source, url }: Sent,
): string[] {
  const type = eventTypesOf(format).find((type) =>
    kinds.includes(kindOf(FORMATS[format], type)!)
  );
  if (type === undefined) return [];
  const subscription = "type" in source ? source.subscription : "";
  return [[
    asTyped(`trigger ${type}`),
    ...(provider === "a" ? [] : [`--provider ${provider}`]),
    ...(subscription === defaultSubscription(provider)
      ? []
      : [`--subscription ${shellWord(subscription)}`]),
    ...(url === undefined ? [] : [`--url ${shellWord(url)}`]),
  ].join(" ")];
}
