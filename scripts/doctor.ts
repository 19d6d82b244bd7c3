import {
  commandLine,
  print,
  printError,
  reportEnd,
  terminalColumns,
  UsageError,
  wrap,
} from "./common/cli.ts";
import type { Environment } from "./common/environment.ts";
import * as options from "./common/option_values.ts";
import { LOCAL_WEBHOOK_URL } from "./common/loopback.ts";
import type { Finding, Findings, Here, Target } from "./doctor/check.ts";
import { checkDatabase } from "./doctor/database.ts";
import { checkEndpoint } from "./doctor/endpoint.ts";
import { checkProject } from "./doctor/project.ts";

const parse = commandLine({
  usage: "doctor",
  summary: "Checks a deployment, and says how to fix what does not work.",
  options: {
    "--url URL":
      `the endpoint, as registered at the provider (default: the project's, else the local stack's, ${LOCAL_WEBHOOK_URL})`,
    ...options.PROVIDER_OPTION,
    "--project-url URL":
      "https://<project-ref>.supabase.co, also SUPABASE_URL (default: the project of --url)",
  },
  environment: {
    SUPABASE_SECRET_KEY:
      "sb_secret_...: also checks the REST API and that the worker accepts it, and counts open failures",
    SUPABASE_DB_URL:
      "postgresql://...: also checks the migration and the schedule",
    PGSSLROOTCERT: "the file with Supabase's root certificate",
    "PROVIDER_A_SIGNING_SECRET, PROVIDER_A_SIGNATURE_HEADER, ...":
      "as in the deployment; also read from supabase/functions/.env (default: the local stack's, for an endpoint on this machine)",
  },
  details:
    `Without a URL, it checks the running local stack with the stack's own key and
database, and ignores those in the environment.`,
  exitCodes: "0 if no check fails, else 1",
});

if (import.meta.main) Deno.exit(await doctor(Deno.args).catch(reportEnd));

async function doctor(args: readonly string[]): Promise<number> {
  const surroundings = await options.lookAround();
  const target = parseDoctorArguments(args, surroundings);

  const { url, projectUrl } = target;
  const project = projectUrl ? `project ${projectUrl}` : "without a project";
  const columns = Math.max(terminalColumns(), 40);
  printError(...wrap(`Checking ${url}, ${project}`, columns));

  const here = { ...surroundings, clock: Date.now };
  const counts = { ok: 0, warning: 0, FAIL: 0, skipped: 0 };
  for await (const finding of checkDeployment(target, here)) {
    print(...findingLines(finding, columns));
    counts[finding.state] += 1;
  }

  const { warning, ...always } = counts;
  const shown = Object.entries(warning > 0 ? counts : always);
  print(shown.map(([state, count]) => `${count} ${state}`).join(", "));
  return counts.FAIL === 0 ? 0 : 1;
}

/** Checks a deployment from the outside inwards, and stores nothing. */
export async function* checkDeployment(target: Target, here: Here): Findings {
  const { origin } = new URL(target.url);
  for await (const finding of checkEndpoint(target, here)) {
    yield finding;
    if (!finding.isDown || !target.projectUrl?.startsWith(origin)) continue;
    const text = "cannot be checked before the endpoint is reached";
    return yield { name: "all others", state: "skipped", text };
  }
  yield* checkProject(target, here);
  yield* checkDatabase(target, here);
}

/** Returns the lines of a finding. A long URL stays in one piece. */
export function findingLines(
  { name, state, text }: Finding,
  columns: number,
): string[] {
  const start = state.padEnd("skipped  ".length) +
    name.padEnd("unsigned event  ".length);
  return wrap(text, columns - start.length).map((line, i) =>
    (i === 0 ? start : " ".repeat(start.length)) + line
  );
}

export function parseDoctorArguments(
  args: readonly string[],
  here: options.Surroundings,
): Target {
  const { values } = parse(args);
  const option = values["project-url"];
  const { projectUrl, secrets } =
    values.url === undefined || options.givenProjectUrl(option, here.env)
      ? options.readProject(option, here)
      : { secrets: here.env };

  const url = options.endpointUrl(values.url, projectUrl);
  const { origin, pathname } = new URL(url);
  const isOfProject = pathname.startsWith("/functions/v1/");
  return {
    url,
    projectUrl: projectUrl ?? (isOfProject ? origin : undefined),
    secretKey: options.readSecret("SUPABASE_SECRET_KEY", secrets),
    dbUrl: readDatabaseUrl(secrets),
    provider: options.readProvider(values.provider),
  };
}

function readDatabaseUrl(secrets: Environment): string | undefined {
  const text = options.readSecret("SUPABASE_DB_URL", secrets);
  if (text === undefined) return undefined;
  const isDatabase = /^postgres(ql)?:$/.test(URL.parse(text)?.protocol ?? "");
  // With a second @, part of the password would be read as the host.
  if (isDatabase && text.split("@").length <= 2) return text;
  // The message leaves the text out: it may contain a password.
  throw new UsageError(
    "SUPABASE_DB_URL takes a URL such as postgresql://postgres.abc:<password>@aws-0-eu-central-1.pooler.supabase.com:5432/postgres, with special characters of the password percent-encoded: %40 for @.",
  );
}
