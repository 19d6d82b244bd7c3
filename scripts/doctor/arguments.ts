import { parseArgs } from "node:util";
import { isLoopback } from "../common/loopback.ts";
import { checkedProjectUrl } from "../common/project_url.ts";
import { readSecret } from "../common/secret_option.ts";
import type { Environment } from "../common/environment.ts";
import { oneOf, UsageError } from "../common/checked.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
} from "../common/provider_settings.ts";
import { LOCAL_WEBHOOK_URL } from "../common/local_webhook_url.ts";

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

const FUNCTIONS_PATH = "/functions/v1/";
const WEBHOOK_PATH = `${FUNCTIONS_PATH}billing-webhook`;

/** What `--help` and a wrong command line print. */
export const DOCTOR_USAGE =
  `Checks a deployment, and says what to do where something is red.

Usage: deno task doctor [options]

Options:
  --url URL            the endpoint, as it is registered at the provider
                       (default: that of the project, else
                       ${LOCAL_WEBHOOK_URL})
  --provider NAME      whose signature the test event carries: ${
    PROVIDER_NAMES.join(" or ")
  } (default: a)
  --project-url URL    https://<project-ref>.supabase.co, also SUPABASE_URL
                       (default: the project of --url)
  --help               this text

Environment:
  SUPABASE_SECRET_KEY  sb_secret_...: also checks that the worker accepts it, and
                       lists failures that are open
  SUPABASE_DB_URL      postgresql://...: also checks migrations and schedule
  PGSSLROOTCERT        the file with Supabase's root certificate, which proves
                       that the database is Supabase's
  PROVIDER_A_SIGNING_SECRET, PROVIDER_A_SIGNATURE_HEADER, ...
                       as the deployment has them; also from
                       supabase/functions/.env (default: the local stack's, for
                       an endpoint on this machine)

--secret-key and --db-url still work, but other users of this machine can read
them. The exit status is 0 if nothing is red, 1 if something is, 2 for a wrong
command line.
`;

/**
 * Parses the command line of `deno task doctor`.
 *
 * @param here.env The command's environment.
 * @param here.warn Receives warnings.
 * @returns null if help was asked for
 * @throws {UsageError}
 */
export function parseDoctorArguments(
  args: string[],
  here: { env: Environment; warn: (text: string) => void },
): DoctorArguments | null {
  const values = parse(args);
  if (values.help) return null;
  const { env } = here;
  const said = values["project-url"] ?? (env["SUPABASE_URL"] || undefined);
  const saidBy = values["project-url"] === undefined
    ? "SUPABASE_URL"
    : "--project-url";
  const project = said === undefined
    ? undefined
    : checkedProjectUrl(saidBy, said);
  const url = values.url === undefined
    ? project === undefined ? LOCAL_WEBHOOK_URL : project + WEBHOOK_PATH
    : checkedEndpoint(values.url);
  return {
    url,
    projectUrl: project ?? projectOf(url),
    secretKey: readSecret({
      option: "secret-key",
      value: values["secret-key"],
      variable: "SUPABASE_SECRET_KEY",
    }, here),
    dbUrl: checkedDatabase(readSecret({
      option: "db-url",
      value: values["db-url"],
      variable: "SUPABASE_DB_URL",
    }, here)),
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
        url: { type: "string" },
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

/** The project's secret key may go there too: see {@linkcode projectOf}. */
function checkedEndpoint(text: string): string {
  const url = URL.parse(text);
  if (
    url?.protocol === "https:" ||
    (url?.protocol === "http:" && isLoopback(text))
  ) return text;
  throw new UsageError(
    "--url takes an https URL, or an http URL on this machine.",
  );
}

function checkedDatabase(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (/^postgres(ql)?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  // Not the text: it may hold a password.
  throw new UsageError(
    "SUPABASE_DB_URL (or --db-url) takes a URL such as postgresql://postgres.abc:<password>@aws-0-eu-central-1.pooler.supabase.com:5432/postgres, with special characters of the password percent-encoded.",
  );
}

function projectOf(url: string): string | undefined {
  const { origin, pathname } = new URL(url);
  return pathname.startsWith(FUNCTIONS_PATH) ? origin : undefined;
}
