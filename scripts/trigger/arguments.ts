import { kindOf } from "../../supabase/functions/_shared/billing/events/format.ts";
import {
  FORMAT_NAMES,
  type FormatName,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import { readFormatName } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { commandLine, UsageError } from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";
import { LOCAL_WEBHOOK_URL } from "../common/loopback.ts";
import {
  chooseOne,
  oneOf,
  PROVIDER_OPTION,
  readProvider,
} from "../common/option_values.ts";
import { eventTypesOf, providerEvent } from "../events/provider_events.ts";
import { subscriptionEvent } from "../events/subscription_event.ts";
import {
  API_VERSIONS,
  type EventType,
  invoiceEvent,
  type JsonObject,
  paymentEvent,
} from "../events/templates.ts";
import {
  isOfSubscription,
  statedEvent,
  type SubscriptionRecord,
} from "./stated_event.ts";

/** What to send, and where: an event to build, or the bytes of a file. */
export type TriggerArguments = ReturnType<typeof parseTriggerArguments>;

const parse = commandLine({
  usage: "trigger <event type>",
  summary: "Signs a realistic event as the provider does, and sends it.",
  options: {
    ...PROVIDER_OPTION,
    "--format NAME": `the events' format: ${
      FORMAT_NAMES.join(", ")
    } (default: PROVIDER_A_FORMAT)`,
    "--url URL":
      `the receiver's URL (default: the local stack's, ${LOCAL_WEBHOOK_URL})`,
    "--subscription ID":
      "the subscription (default: sub_local_a for provider a, and so on)",
    "--account ID":
      "the account (default: acc_local); --account= leaves it out of a subscription",
    "--event ID":
      "the event (default: a new ID); the same ID twice is a duplicate",
    "--status STATUS":
      "the subscription's status, or a checkout's payment_status (default: by event type)",
    "--plan ID": "the subscription's plan",
    "--quantity NUMBER": "the quantity of the plan",
    "--cancel-at TIME":
      "a planned end, such as 2027-01-31; --cancel-at= withdraws it",
    "--payload FILE": "sign and send the bytes of a file, instead of an event",
    "--print": "print the event, and send nothing",
  },
  details: `Without an event type, it lists those of the format.

Values without an option stay as in the record, if it can be read. Without any
option, customer.subscription.updated is the change to an unpaid yearly plan.

Standard output has the status and the body of the answer. Standard error has
the result of the event, and the row: on the local stack, or with SUPABASE_URL
and SUPABASE_SECRET_KEY for a --url of that project.

The signing secrets are those of the functions: from the environment, from
supabase/functions/.env, or else the local stack's.`,
  exitCodes: "0 for a 2xx answer, else 1",
});

export function parseTriggerArguments(
  args: readonly string[],
  env: Environment = {},
) {
  const { values, operands } = parse(args);
  const {
    url,
    payload,
    print = false,
    format: formatName,
    provider: providerName,
    ...event
  } = values;
  const provider = readProvider(providerName);
  const format = formatName === undefined
    ? readFormatName(env, provider)
    : oneOf(FORMAT_NAMES, { value: formatName, what: "format" });

  const options = Object.keys({ ...event, ...(print && { print }) });
  const others = [...operands, ...options.map((name) => `--${name}`)];
  if (payload !== undefined && others.length > 0) {
    throw new UsageError(
      `--payload sends the file as it is, so leave out: ${others.join(", ")}.`,
    );
  }
  if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
    throw new UsageError("--url takes an http or https URL.");
  }

  if (payload !== undefined) {
    return { provider, format, url, print, source: { payload } };
  }
  const type = eventType(operands, format);
  requireFitting(type, event, format);
  const { quantity, "cancel-at": cancelAt, ...texts } = event;
  const source = {
    type,
    // A subscription belongs to one provider.
    subscription: `sub_local_${provider}`,
    ...texts,
    ...(quantity !== undefined && { quantity: readQuantity(quantity) }),
    ...(cancelAt !== undefined && { cancelAt: readTime(cancelAt) }),
  };
  return { provider, format, url, print, source };
}

function eventType(
  [type, ...more]: readonly string[],
  format: FormatName,
): string {
  const types = eventTypesOf(format);
  if (type === undefined) {
    throw new UsageError(`The event type is missing. ${chooseOne(types)}`);
  }
  if (more.length > 0) {
    throw new UsageError(
      `This command takes one event type, not ${more.length + 1} words.`,
    );
  }
  return oneOf(types, { value: type, what: `${format} event type` });
}

function readQuantity(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError("--quantity takes a whole number, such as 5.");
}

function readTime(text: string): number | null {
  if (text === "") return null;
  const seconds = Date.parse(/^\d{4}-\d{2}-\d{2}/.test(text) ? text : "") /
    1000;
  if (!Number.isNaN(seconds)) return Math.floor(seconds);
  throw new UsageError(
    "--cancel-at takes a time such as 2027-01-31 or 2027-01-31T12:00:00Z.",
  );
}

type EventSource = Extract<TriggerArguments["source"], { type: string }>;

/** The types that have an option, besides those that change a subscription. */
const TYPES_WITH = {
  "status": /\bsubscription\.|^checkout\./,
  "plan": /\bsubscription\.|^(?:transaction|order)\./,
  "quantity": /^$/,
  "cancel-at": /^$/,
};

function requireFitting(
  type: string,
  options: object,
  format: FormatName,
): void {
  const isChange = isOfSubscription(format, type);
  for (const [name, types] of Object.entries(TYPES_WITH)) {
    if (name in options && !isChange && !types.test(type)) {
      throw new UsageError(`${type} takes no --${name}.`);
    }
  }
}

/** @param options.created Unix time in seconds, by default now. */
export function buildEvent(
  { type, subscription, event, ...given }: EventSource,
  { created, format = "stripe", record }: {
    created?: number | undefined;
    format?: FormatName;
    record?: SubscriptionRecord | undefined;
  } = {},
): JsonObject {
  const ids = { subscription, ...(event !== undefined && { id: event }) };
  if (isOfSubscription(format, type)) {
    return statedEvent(type, { given, ids, format, created, record });
  }

  const { quantity: _, cancelAt: __, ...texts } = given;
  const stated = { ...ids, account: "acc_local", ...texts };
  if (format !== "stripe") return providerEvent(format, type, stated);

  // Types that only handlers read have the shape that Stripe sends today.
  const isRead = (kindOf(stripe, type) ?? "notice") !== "notice";
  const options = {
    ...stated,
    ...(created !== undefined && { created }),
    ...(!isRead && { apiVersion: API_VERSIONS[1]! }),
  };
  const named = type as EventType;
  switch (named) {
    case "invoice.paid":
    case "invoice.payment_failed":
    case "invoice.payment_action_required":
      return { ...invoiceEvent(options, named) };
    case "charge.refunded":
    case "checkout.session.completed":
    case "checkout.session.async_payment_succeeded":
    case "payment_intent.payment_failed":
    case "payment_intent.succeeded":
      return { ...paymentEvent(named, options) };
    default:
      return {
        ...subscriptionEvent(named, {
          ...options,
          account: options.account || null,
        }),
      };
  }
}
