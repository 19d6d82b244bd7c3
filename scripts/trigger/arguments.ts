import { parseArgs } from "node:util";
import {
  API_VERSIONS,
  type ApiVersion,
  EVENT_TYPES,
  type EventType,
} from "../events/templates.ts";
import {
  checkedSeconds,
  checkedUrl,
  oneOf,
  UsageError,
} from "../common/checked.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
} from "../common/provider_settings.ts";
import { LOCAL_WEBHOOK_URL } from "../common/local_webhook_url.ts";

/** What to send, and to whom. */
export interface TriggerArguments {
  provider: ProviderName;
  url: string;
  /** An event to build, or the file that holds the body to send as it is. */
  what: EventArguments | { payload: string };
}

/** An event to build. What is not there is up to the builder. */
export interface EventArguments {
  type: EventType;
  subscription?: string;
  account?: string;
  event?: string;
  status?: string;
  plan?: string;
  /** Unix time in seconds. */
  created?: number;
  apiVersion?: ApiVersion;
}

const EVENT_OPTIONS = {
  subscription: { type: "string" },
  account: { type: "string" },
  event: { type: "string" },
  status: { type: "string" },
  plan: { type: "string" },
  created: { type: "string" },
  "api-version": { type: "string" },
} as const;

const OPTIONS = {
  ...EVENT_OPTIONS,
  provider: { type: "string", default: "a" },
  url: { type: "string", default: LOCAL_WEBHOOK_URL },
  payload: { type: "string" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/**
 * Parses the command line of `deno task trigger`.
 *
 * @returns null where help was asked for
 * @throws {UsageError}
 */
export function parseArguments(args: string[]): TriggerArguments | null {
  const { values, positionals } = parse(args);
  if (values.help) return null;
  return {
    provider: oneOf(PROVIDER_NAMES, {
      value: values.provider,
      what: "provider",
    }),
    url: checkedUrl(values.url),
    what: values.payload === undefined
      ? eventArguments(positionals, values)
      : { payload: onlyPayload(values.payload, { values, positionals }) },
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

type Values = ReturnType<typeof parse>["values"];

function eventArguments(positionals: string[], values: Values): EventArguments {
  if (positionals.length !== 1) {
    throw new UsageError(
      positionals.length === 0
        ? `An event type is missing: one of ${EVENT_TYPES.join(", ")}.`
        : `One event type, please, not ${positionals.length}: ${
          positionals.join(" ")
        }.`,
    );
  }
  const { created, "api-version": version } = values;
  return {
    type: oneOf(EVENT_TYPES, { value: positionals[0], what: "event type" }),
    ...given("subscription", values.subscription),
    ...given("account", values.account),
    ...given("event", values.event),
    ...given("status", values.status),
    ...given("plan", values.plan),
    ...given(
      "created",
      created === undefined ? created : checkedSeconds(created),
    ),
    ...given(
      "apiVersion",
      version === undefined
        ? version
        : oneOf(API_VERSIONS, { value: version, what: "API version" }),
    ),
  };
}

/** The field where there is a value for it, else no field. */
function given<Name extends string, T>(
  name: Name,
  value: T | undefined,
): { [name in Name]?: T } {
  return value === undefined ? {} : { [name]: value } as { [n in Name]: T };
}

function onlyPayload(
  payload: string,
  { values, positionals }: { values: Values; positionals: string[] },
): string {
  const others = (Object.keys(EVENT_OPTIONS) as (keyof typeof EVENT_OPTIONS)[])
    .filter((name) => values[name] !== undefined)
    .map((name) => `--${name}`);
  const refused = [...positionals, ...others];
  if (refused.length > 0) {
    throw new UsageError(
      `--payload sends the file as it is, so leave out: ${refused.join(", ")}.`,
    );
  }
  return payload;
}
