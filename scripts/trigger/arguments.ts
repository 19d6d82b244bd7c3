import { kindOf } from "../../supabase/functions/_shared/billing/formats/format.ts";
import {
  FORMAT_NAMES,
  type FormatName,
} from "../../supabase/functions/_shared/billing/formats/formats.ts";
import { readFormatName } from "../../supabase/functions/_shared/billing/providers.ts";
import { stripe } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";
import { LOCAL_WEBHOOK_URL } from "../common/loopback.ts";
import {
  oneOf,
  PROVIDER_OPTION,
  readProvider,
} from "../common/option_values.ts";
import type { ProviderName } from "../common/sign.ts";
import type { JsonObject } from "../events/event_types.ts";
import { invoiceEvent } from "../events/invoice_event.ts";
import { paymentEvent } from "../events/payment_event.ts";
import { eventTypesOf, providerEvent } from "../events/provider_events.ts";
import { subscriptionEvent } from "../events/subscription_event.ts";
import {
  API_VERSIONS,
  EVENT_TYPES,
  type EventType,
} from "../events/templates.ts";

/** What to send, and where: an event to build, or the bytes of a file. */
export type TriggerArguments = ReturnType<typeof parseTriggerArguments>;

const COMMAND_LINE = {
  usage: "trigger <event type>",
  summary: "Signs a realistic event as the provider does, and sends it.",
  options: {
    ...PROVIDER_OPTION,
    "--format NAME": `whose events: ${
      FORMAT_NAMES.join(", ")
    } (default: as the setting PROVIDER_A_FORMAT says)`,
    "--url URL":
      `the receiver's URL (default: the local stack's, ${LOCAL_WEBHOOK_URL})`,
    "--subscription ID":
      "the subscription (default: sub_local_a for provider a, and so on)",
    "--account ID":
      "the account (default: acc_local); --account= leaves it out of a subscription",
    "--event ID":
      "the event (default: a new ID); the same ID again is a duplicate",
    "--status STATUS":
      "the subscription's status, or a checkout's payment_status (default: by event type)",
    "--plan ID": "the subscription's plan",
    "--payload FILE": "sign and send the bytes of a file, instead of an event",
    "--print": "print the event, and send nothing",
  },
  details: `Event types of Stripe; of another one: trigger --format paddle
${EVENT_TYPES.map((type) => `  ${type}`).join("\n")}

For a test of your own handler, --print gives it an event: docs/handlers.md.

Standard output has the status and the body of the answer. Standard error has
what became of the event, and the row: on the local stack, or with SUPABASE_URL
and SUPABASE_SECRET_KEY for a --url of that project.

Exit code: 0 for a 2xx answer, 1 for any other or none, 2 for a wrong command
line.

The signing secrets are those of the functions: from the environment, from
supabase/functions/.env, or else the ones of the local stack.`,
} as const satisfies CommandLine;

/** Parses the command line; `env` has the functions' settings, such as the format. */
export function parseTriggerArguments(
  args: readonly string[],
  env: Environment = {},
) {
  const { values, operands } = parseCommandLine(args, COMMAND_LINE);
  const {
    url,
    payload,
    print = false,
    format: form,
    provider: name,
    ...event
  } = values;
  const provider = readProvider(name);
  const format = form === undefined
    ? readFormatName(env, provider)
    : oneOf(FORMAT_NAMES, { value: form, what: "format" });
  if (print && payload !== undefined) {
    throw new UsageError("--print is for an event, not for a --payload.");
  }
  const others = [...operands, ...Object.keys(event).map((one) => `--${one}`)];
  if (payload !== undefined && others.length > 0) {
    throw new UsageError(
      `--payload sends the file as it is, so leave out: ${others.join(", ")}.`,
    );
  }
  if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
    throw new UsageError("--url takes an http or https URL.");
  }
  const source = payload === undefined
    ? {
      type: eventType(operands, format),
      subscription: defaultSubscription(provider),
      ...event,
    }
    : { payload };
  return { provider, format, url, print, source };
}

/** One for each provider: a subscription belongs to the one that created it. */
export function defaultSubscription(provider: ProviderName): string {
  return `sub_local_${provider}`;
}

function eventType(
  [type, ...more]: readonly string[],
  format: FormatName,
): string {
  const types = eventTypesOf(format);
  if (type === undefined) {
    throw new UsageError(
      `The event type is missing. Choose one of ${types.join(", ")}.`,
    );
  }
  if (more.length > 0) {
    throw new UsageError(
      `This command takes one event type, not ${more.length + 1} words.`,
    );
  }
  return oneOf(types, { value: type, what: "event type" });
}

type EventSource = Extract<TriggerArguments["source"], { type: string }>;

/**
 * Returns the event that the arguments describe.
 *
 * @param options.created Unix time in seconds, by default now.
 */
export function buildEvent(
  { type, event: id, account = "acc_local", ...given }: EventSource,
  { created, format = "stripe" }: {
    readonly created?: number | undefined;
    readonly format?: FormatName;
  } = {},
): JsonObject {
  const said = { account, ...given, ...(id !== undefined && { id }) };
  if (format !== "stripe") {
    const occurredAt = created && new Date(created * 1000).toISOString();
    return providerEvent(format, type, {
      ...said,
      ...(occurredAt && { occurredAt }),
    });
  }
  const options = {
    ...said,
    ...(created !== undefined && { created }),
    // Handlers read events as Stripe sends them today.
    ...((kindOf(stripe, type) ?? "notice") === "notice" &&
      { apiVersion: API_VERSIONS[1]! }),
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
      return { ...paymentEvent(named, options) };
    default:
      return {
        ...subscriptionEvent(named, { ...options, account: account || null }),
      };
  }
}
