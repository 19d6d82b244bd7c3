import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { handlerName } from "../../supabase/functions/_shared/billing/config.ts";
import { kindOf } from "../../supabase/functions/_shared/billing/formats/format.ts";
import { stripe } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { asTyped, shellWord } from "../common/how_started.ts";
import { nextStep } from "../common/next_step.ts";
import type { Reply } from "../common/requests.ts";
import { wrap } from "../common/print.ts";
import type { EventType } from "../events/templates.ts";
import { defaultSubscription, type TriggerArguments } from "./arguments.ts";
import { MAX_COLUMNS } from "./result.ts";

const CREATED = "customer.subscription.created";

/** What is said after a success, and the type of the next command. */
const AFTER: Readonly<
  Record<string, readonly [string, EventType]>
> = {
  "customer.subscription.created": ["Next:", "customer.subscription.updated"],
  "customer.subscription.updated": ["Next:", "invoice.payment_failed"],
  "invoice.payment_failed": [
    "The receiver added a row to billing.notifications, and the worker sends it. Next:",
    "customer.subscription.deleted",
  ],
  "customer.subscription.paused": ["Next:", "customer.subscription.resumed"],
  "customer.subscription.resumed": ["Next:", "customer.subscription.deleted"],
  "customer.subscription.deleted": ["Next, another subscription:", CREATED],
};

const CODES = Object.keys(ERRORS) as ErrorCode[];

const RECORDED = [
  "The event is in billing.failed_events.",
  `To repair it: ${asTyped("console")}, or docs/runbook.md for SQL`,
];

/** The most likely codes, for answers that several codes share. */
const USUAL: readonly ErrorCode[] = [
  "path_unknown",
  "signature_mismatch",
  "database_unavailable",
];

/** What was sent, and where, if that is not the default. */
export type Sent = Pick<TriggerArguments, "provider" | "source" | "url">;

/** An answer, with what could be read of its event in the database. */
type Answer = Pick<Reply, "status" | "body"> & {
  readonly errorCode?: string | undefined;
  readonly isClaimed?: boolean | undefined;
};

/** Returns lines that say what to do after an answer. */
export function advice(reply: Answer, sent: Sent): readonly string[] {
  if (reply.status < 200 || reply.status > 299) {
    return afterFailure(reply, sent);
  }
  if (!("type" in sent.source)) return [];
  const { type, as = type, subscription } = sent.source;
  const own = AFTER[as];
  if (own !== undefined) {
    const [text, next] = own;
    const about = next === CREATED ? `${subscription}_2` : subscription;
    return withCommand(text, command(next, sent, about));
  }
  const notice = stripe.notices?.[as];
  return reply.isClaimed ? [] : wrap(
    notice
      ? `To notify the account of it, add ${notice} to NOTIFY: docs/notifications.md.`
      : `To handle this type, add it to HANDLE_EVENT_TYPES, and create the function billing.${
        handlerName(as)
      }: docs/handlers.md.`,
    MAX_COLUMNS,
  );
}

function afterFailure(
  { status, body, errorCode }: Answer,
  sent: Sent,
): readonly string[] {
  const { source, provider } = sent;
  const type = "type" in source ? source.as ?? source.type : CREATED;
  const given = "type" in source && type !== CREATED && kindOf(stripe, type)
    ? source
    : null;
  const likely: ErrorCode = given
    ? "subscription_unknown"
    : kindOf(stripe, type)
    ? "internal_error"
    : "handler_missing";
  const codes = CODES.filter((code) => ERRORS[code].status === status);
  const exact = codes.filter((code) => ERRORS[code].body === body);
  const sure = errorCode ?? (exact.length === 1 ? exact[0] : undefined);
  const code = sure ?? [...USUAL, likely].find((one) => codes.includes(one));
  if (code === undefined) return [];
  const text = nextStep(code, provider);
  // What only the row says was printed with the row.
  const said = text
    ? `${sure ? "" : "most likely "}${code}: ${text}`
    : errorCode
    ? ""
    : "The receiver's log has the reason.";
  if (given && /^(?:subscription_unknown|creation_pending)$/.test(code)) {
    return withCommand(said, command(CREATED, sent, given.subscription));
  }
  const own = status === 401
    ? "This command reads it from its environment, else from supabase/functions/.env."
    : status === 503
    ? "To send the same event, add --event and its ID."
    : "";
  const isRecorded = errorCode || /^(?:400|422|500)$/.test(`${status}`) &&
      code !== "provider_misconfigured";
  return [
    ...[said, own].flatMap((text) => wrap(text, MAX_COLUMNS)),
    ...(isRecorded ? RECORDED : []),
  ];
}

/** Returns a text and a command, on several lines if one is too short. */
function withCommand(text: string, command: readonly string[]) {
  const line = [text, ...command].join(" ");
  if (line.length <= MAX_COLUMNS) return [line];
  const isLong = command.join(" ").length > MAX_COLUMNS;
  return [
    ...wrap(text, MAX_COLUMNS),
    ...command.join(isLong ? " \\\n  " : " ").split("\n"),
  ];
}

/** Returns the command that sends another type of event to the same place. */
function command(
  type: EventType,
  { provider, url }: Sent,
  subscription: string,
): readonly string[] {
  const isDefault = subscription === defaultSubscription(provider);
  return [
    asTyped(`trigger ${type}`),
    ...(provider === "a" ? [] : [`--provider ${provider}`]),
    ...(isDefault ? [] : [`--subscription ${shellWord(subscription)}`]),
    ...(url === undefined ? [] : [`--url ${shellWord(url)}`]),
  ];
}
