import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import { localSecrets } from "../common/local_secrets.ts";
import { LOCAL_WEBHOOK_URL } from "../common/loopback.ts";
import {
  givenProjectUrl,
  PROVIDER_OPTION,
  readProvider,
  readSecret,
  safeUrl,
} from "../common/option_values.ts";
import type { ProviderName } from "../common/provider_settings.ts";
import type { Surroundings } from "../common/surroundings.ts";

/** What to check, and with which rights. */
export interface DoctorArguments {
  /** The endpoint, as it is registered at the provider. */
  readonly url: string;
  /** Without a slash at its end; undefined if `url` does not contain it. */
  readonly projectUrl: string | undefined;
  readonly secretKey: string | undefined;
  readonly dbUrl: string | undefined;
  readonly provider: ProviderName;
}

const FUNCTIONS_PATH = "/functions/v1/";
const WEBHOOK_PATH = `${FUNCTIONS_PATH}billing-webhook`;

const COMMAND_LINE = {
  usage: "doctor",
  summary: "Checks a deployment, and says how to fix what does not work.",
  options: {
    "--url URL":
      `the endpoint, as registered at the provider (default: the project's, else the local stack's, ${LOCAL_WEBHOOK_URL})`,
    ...PROVIDER_OPTION,
    "--project-url URL":
      "https://<project-ref>.supabase.co, also SUPABASE_URL (default: the project of --url)",
  },
  environment: {
    SUPABASE_SECRET_KEY:
      "sb_secret_...: also checks the REST API and that the worker accepts it, and counts open failures",
    SUPABASE_DB_URL:
      "postgresql://...: also checks the migration and the schedule",
    PGSSLROOTCERT:
      "the file with Supabase's root certificate, which verifies the database",
    "PROVIDER_A_SIGNING_SECRET, PROVIDER_A_SIGNATURE_HEADER, ...":
      "as in the deployment; also read from supabase/functions/.env (default: the local stack's, for an endpoint on this machine)",
  },
  details:
    `Without a URL, it checks the local stack that runs, with its key and database;
those in the environment are not used.

Exit code: 0 if no check fails, 1 if one does, 2 for a wrong command line.`,
} as const satisfies CommandLine;

/**
 * Parses the command line of `deno task doctor`.
 *
 * @param here.local Checked if no URL is given, with its own key and database.
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseDoctorArguments(
  args: readonly string[],
  here: Surroundings,
): DoctorArguments {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  const project = givenProjectUrl(values["project-url"], here.env);
  const isLocal = values.url === undefined && project === undefined;
  const local = isLocal ? here.local : undefined;
  const own = {
    SUPABASE_SECRET_KEY: local?.secretKey ?? "",
    SUPABASE_DB_URL: local?.dbUrl ?? "",
  };
  const secrets = isLocal ? localSecrets(own, here) : here.env;
  const url = values.url === undefined
    ? project === undefined
      ? local?.webhookUrl ?? LOCAL_WEBHOOK_URL
      : project + WEBHOOK_PATH
    : checkedEndpoint(values.url);
  return {
    url,
    projectUrl: project ?? projectOf(url),
    secretKey: readSecret("SUPABASE_SECRET_KEY", secrets),
    dbUrl: checkedDatabase(readSecret("SUPABASE_DB_URL", secrets)),
    provider: readProvider(values.provider),
  };
}

/** The project's secret key may be sent there too: see {@linkcode projectOf}. */
function checkedEndpoint(text: string): string {
  if (safeUrl(text)) return text;
  throw new UsageError(
    "--url takes an https URL, or an http URL on this machine.",
  );
}

function checkedDatabase(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const isDatabase = /^postgres(ql)?:$/.test(URL.parse(text)?.protocol ?? "");
  // With a second @, a part of the password would be taken for the host.
  if (isDatabase && text.split("@").length <= 2) return text;
  // The message leaves the text out: it may contain a password.
  throw new UsageError(
    "SUPABASE_DB_URL takes a URL such as postgresql://postgres.abc:<password>@aws-0-eu-central-1.pooler.supabase.com:5432/postgres, with special characters of the password percent-encoded: %40 for @.",
  );
}

function projectOf(url: string): string | undefined {
  const { origin, pathname } = new URL(url);
  return pathname.startsWith(FUNCTIONS_PATH) ? origin : undefined;
}
