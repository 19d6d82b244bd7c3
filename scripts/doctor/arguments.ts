import { parseArgs } from "node:util";
import { oneOf, UsageError } from "../trigger/checked.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
} from "../trigger/provider_settings.ts";
import { DEFAULT_URL } from "../trigger/usage.ts";

/** What to look at, and with which rights. */
export interface DoctorArguments {
  /** The endpoint, as it is registered at the provider. */
  readonly url: string;
  /** Without a slash at its end; undefined where `url` does not tell it. */
  readonly projectUrl: string | undefined;
  readonly secretKey: string | undefined;
  readonly dbUrl: string | undefined;
  readonly provider: ProviderName;
}

/** What `--help` and a wrong command line print. */
export const DOCTOR_USAGE =
  `Checks a deployment, and says what to do where something is red.

Usage: deno task doctor [options]

Options:
  --url URL            the endpoint, as it is registered at the provider
                       (default: ${DEFAULT_URL})
  --provider NAME      whose signature the test event carries: ${
    PROVIDER_NAMES.join(" or ")
  } (default: a)
  --project-url URL    the project, where --url is an address of your own:
                       https://<project-ref>.supabase.co
  --secret-key KEY     sb_secret_...: also checks that the worker takes it, and
                       for failures that are open
  --db-url URL         postgresql://...: also checks migrations and schedule
  --help               this text

The provider's secret is taken from the environment, supabase/functions/.env, or
else it is that of the local stack. The exit status is 0 where nothing is red, 1
where something is, 2 for a wrong command line.
`;

/**
 * Parses the command line of `deno task doctor`.
 *
 * @returns null where help was asked for
 * @throws {UsageError}
 */
export function parseDoctorArguments(args: string[]): DoctorArguments | null {
  const values = parse(args);
  if (values.help) return null;
  const url = checked("url", { text: values.url, schemes: /^https?:$/ });
  return {
    url,
    projectUrl: values["project-url"] === undefined
      ? projectOf(url)
      : checked("project-url", {
        text: values["project-url"].replace(/\/+$/, ""),
        schemes: /^https?:$/,
      }),
    secretKey: values["secret-key"],
    dbUrl: values["db-url"] === undefined ? undefined : checked("db-url", {
      text: values["db-url"],
      schemes: /^postgres(ql)?:$/,
    }),
    provider: oneOf(PROVIDER_NAMES, {
      value: values.provider,
      what: "provider",
    }),
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        url: { type: "string", default: DEFAULT_URL },
        provider: { type: "string", default: "a" },
        "project-url": { type: "string" },
        "secret-key": { type: "string" },
        "db-url": { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function checked(
  option: string,
  { text, schemes }: { text: string; schemes: RegExp },
): string {
  if (schemes.test(URL.parse(text)?.protocol ?? "")) return text;
  // Not the text: it may hold a password.
  throw new UsageError(`--${option} takes an address of another form.`);
}

function projectOf(url: string): string | undefined {
  const { origin, pathname } = new URL(url);
  return pathname.startsWith("/functions/v1/") ? origin : undefined;
}
