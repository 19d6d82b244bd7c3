import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped, shellWord } from "../common/how_started.ts";
import { nextStep } from "../common/next_step.ts";
import type { Reply } from "../common/requests.ts";
import { wrap } from "../common/print.ts";
import type { EventType } from "../events/templates.ts";
import { defaultSubscription, type TriggerArguments } from "./arguments.ts";
import { MAX_COLUMNS } from "./result.ts";

const CREATED = "customer.subscription.created";

/** What is said after a success, and the type of the next command. */
const AFTER: Readonly<Record<EventType, readonly [string, EventType?]>> = {
  "customer.subscription.created": ["Next:", "customer.subscription.updated"],
  "customer.subscription.updated": ["Next:", "invoice.payment_failed"],
  "invoice.payment_failed": [
    "The receiver added a row to billing.notifications, and the worker sends it. Next:",
    "customer.subscription.deleted",
  ],
  "customer.subscription.deleted": ["Next, another subscription:", CREATED],
  "payment_intent.payment_failed": [
    "The receiver does not handle this type: it acknowledged the event and stored nothing.",
  ],
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
  "subscription_unknown",
  "internal_error",
  "database_unavailable",
];

/** What was sent, and where, if that is not the default. */
export type Sent = Pick<TriggerArguments, "provider" | "source" | "url">;

/** An answer, with the code in `billing.failed_events` if that could be read. */
type Answer = Pick<Reply, "status" | "body"> & {
  readonly errorCode?: string | undefined;
};

/** Returns lines that say what to do after an answer. */
export function advice(reply: Answer, sent: Sent): readonly string[] {
  if (reply.status < 200 || reply.status > 299) {
    return afterFailure(reply, sent);
  }
  if (!("type" in sent.source)) return [];
  const { type, subscription } = sent.source;
  const [text, next] = AFTER[type];
  if (!next) return wrap(text, MAX_COLUMNS);
  const about = next === CREATED ? `${subscription}_2` : subscription;
  return withCommand(text, command(next, sent, about));
}

function afterFailure(
  { status, body, errorCode }: Answer,
  sent: Sent,
): readonly string[] {
  const { source, provider } = sent;
  const given = "type" in source && source.type !== CREATED ? source : null;
  const codes = CODES.filter((code) => ERRORS[code].status === status);
  const exact = codes.filter((code) => ERRORS[code].body === body);
  const sure = errorCode ?? (exact.length === 1 ? exact[0] : undefined);
  const code = sure ??
    USUAL.find((one) =>
      codes.includes(one) && (given || one !== "subscription_unknown")
    );
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
