import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import { LOCAL_WEBHOOK_URL } from "../common/loopback.ts";
import { oneOf } from "../common/option_values.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
} from "../common/provider_settings.ts";
import {
  API_VERSIONS,
  type ApiVersion,
  EVENT_TYPES,
  type EventType,
} from "../events/templates.ts";

/** What to send, and where. */
export interface TriggerArguments {
  readonly provider: ProviderName;
  readonly url: string;
  /** An event to build, or the file whose bytes are the body. */
  readonly what: EventArguments | { readonly payload: string };
}

/** An event to build. The builder fills in what is missing. */
export interface EventArguments {
  readonly type: EventType;
  readonly subscription?: string;
  readonly account?: string;
  readonly event?: string;
  readonly status?: string;
  readonly plan?: string;
  /** Unix time in seconds. */
  readonly created?: number;
  readonly apiVersion?: ApiVersion;
}

const EVENT_OPTIONS = {
  subscription: {
    type: "string",
    value: "ID",
    help: "the subscription (default: sub_local_a for provider a, and so on)",
  },
  account: {
    type: "string",
    value: "ID",
    help: "the account (default: acc_local)",
  },
  event: {
    type: "string",
    value: "ID",
    help: "the event (default: a new ID); the same ID again is a duplicate",
  },
  status: {
    type: "string",
    value: "STATUS",
    help:
      "the subscription's status (default: active, past_due or canceled, by event type)",
  },
  plan: { type: "string", value: "ID", help: "the subscription's plan" },
  created: {
    type: "string",
    value: "SECONDS",
    help: "when the event occurred, in Unix time (default: now)",
  },
  "api-version": {
    type: "string",
    value: "VERSION",
    help: `${API_VERSIONS.join(" or ")} (default: ${API_VERSIONS[0]})`,
  },
} as const;

const COMMAND_LINE = {
  task: "trigger",
  operands: "<event type>",
  summary: "Signs a realistic event as the provider does, and sends it.",
  options: {
    provider: {
      type: "string",
      value: "NAME",
      help: `the sender: ${PROVIDER_NAMES.join(" or ")}`,
      default: "a",
    },
    url: {
      type: "string",
      value: "URL",
      help: "the receiver's URL",
      default: LOCAL_WEBHOOK_URL,
    },
    ...EVENT_OPTIONS,
    payload: {
      type: "string",
      value: "FILE",
      help: "sign and send the bytes of a file, instead of an event",
    },
  },
  details: `Event types:
${EVENT_TYPES.map((type) => `  ${type}`).join("\n")}

Standard output has the status and the body of the answer.

Exit code: 0 for a 2xx answer, 1 for any other or none, 2 for a wrong command
line.

The signing secrets are those of the functions: from the environment, from
supabase/functions/.env, or else the ones of the local stack.`,
} as const satisfies CommandLine;

/**
 * Parses the command line of `deno task trigger`.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseTriggerArguments(
  args: readonly string[],
): TriggerArguments {
  const { values, operands } = parseCommandLine(args, COMMAND_LINE);
  const { provider, url, payload, created, "api-version": version } = values;
  const { subscription, account, event, status, plan } = values;
  const target = {
    provider: oneOf(PROVIDER_NAMES, { value: provider, what: "provider" }),
    url: checkedUrl(url),
  };
  if (payload !== undefined) {
    const others = Object.keys(EVENT_OPTIONS)
      .filter((name) => values[name as keyof typeof values] !== undefined)
      .map((name) => `--${name}`);
    refuseBesidePayload([...operands, ...others]);
    return { ...target, what: { payload } };
  }
  return {
    ...target,
    what: {
      type: eventType(operands),
      ...(subscription !== undefined && { subscription }),
      ...(account !== undefined && { account }),
      ...(event !== undefined && { event }),
      ...(status !== undefined && { status }),
      ...(plan !== undefined && { plan }),
      ...(created !== undefined && { created: checkedSeconds(created) }),
      ...(version !== undefined && {
        apiVersion: oneOf(API_VERSIONS, {
          value: version,
          what: "API version",
        }),
      }),
    },
  };
}

function eventType([type, ...more]: readonly string[]): EventType {
  if (type === undefined) {
    throw new UsageError(
      `The event type is missing. Choose one of ${EVENT_TYPES.join(", ")}.`,
    );
  }
  if (more.length > 0) {
    throw new UsageError(
      `This command takes one event type, not ${more.length + 1} words.`,
    );
  }
  return oneOf(EVENT_TYPES, { value: type, what: "event type" });
}

function checkedSeconds(text: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  throw new UsageError(
    `--created takes Unix time in whole seconds, not "${text}".`,
  );
}

function checkedUrl(text: string): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  throw new UsageError("--url takes an http or https URL.");
}

function refuseBesidePayload(words: readonly string[]): void {
  if (words.length === 0) return;
  throw new UsageError(
    `--payload sends the file as it is, so leave out: ${words.join(", ")}.`,
  );
}
