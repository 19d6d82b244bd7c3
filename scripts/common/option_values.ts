/** Reads options and variables that several commands have. No error repeats a secret. */
import { checkKey } from "../../supabase/functions/_shared/billing/settings/deployment.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { closest } from "./closest.mjs";
import { printError, UsageError } from "./cli.ts";
import {
  type Environment,
  functionEnvironment,
  readEnvFile,
} from "./environment.ts";
import { isLoopback, LOCAL_PROJECT_URL } from "./loopback.ts";
import { findRunningStack, type RunningStack } from "./running_stack.ts";
import { PROVIDER_NAMES, type ProviderName } from "./sign.ts";

export interface Surroundings {
  /** Also has the settings of the functions. */
  readonly env: Environment;
  readonly warn: (text: string) => void;
  /** The local stack, if one runs. It is used if no URL is given. */
  readonly local?: RunningStack | undefined;
}

export async function lookAround(): Promise<Surroundings> {
  const command = Deno.env.toObject();
  const settings = functionEnvironment(command, await readEnvFile());
  const local = await findRunningStack(command);
  return { env: { ...settings, ...command }, warn: printError, local };
}

export const PROVIDER_OPTION = {
  "--provider NAME": `the provider: ${
    PROVIDER_NAMES.join(" or ")
  } (default: a)`,
} as const;

export const PROJECT_OPTION = {
  "--project-url URL":
    `https://<project-ref>.supabase.co, also SUPABASE_URL (default: the running local stack, else ${LOCAL_PROJECT_URL})`,
} as const;

export const PROJECT_ENVIRONMENT = {
  SUPABASE_SECRET_KEY:
    "sb_secret_... (default for a local project: the local stack's)",
};

export function readProvider(value: string = "a"): ProviderName {
  return oneOf(PROVIDER_NAMES, { value, what: "provider" });
}

/** The error repeats the value, so pass no secret. */
export function oneOf<T extends string>(
  choices: readonly T[],
  { value, what }: { value: string; what: string },
): T {
  const choice = choices.find((choice) => choice === value);
  if (choice !== undefined) return choice;
  const meant = closest(value, choices) ??
    choices.find((choice) => choice.endsWith(value));
  throw new UsageError(
    `Unknown ${what} "${value}". ${
      meant ? `Did you mean ${meant}?` : chooseOne(choices)
    }`,
  );
}

export function chooseOne(choices: readonly string[]): string {
  const line = choices.join(", ");
  return line.length < 50
    ? `Choose one of ${line}.`
    : ["Choose one of:", ...choices].join("\n  ");
}

/** The error omits the URL, which may contain a password. */
export function givenProjectUrl(
  option: string | undefined,
  env: Environment,
): string | undefined {
  const text = option ?? (env["SUPABASE_URL"] || undefined);
  if (text === undefined) return undefined;

  const url = safeUrl(text);
  const isWhole = url?.username === "" && url.password === "" &&
    url.search === "" && url.hash === "" &&
    !url.pathname.includes("/functions/v1");
  if (isWhole) return url.origin + url.pathname.replace(/\/+$/, "");

  const name = option === undefined ? "SUPABASE_URL" : "--project-url";
  throw new UsageError(
    `${name} takes a URL such as https://abc.supabase.co, without a user name or password. http is allowed on this machine only.`,
  );
}

function safeUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  const isSafe = url?.protocol === "https:" ||
    (url?.protocol === "http:" && isLoopback(text));
  return isSafe ? url : undefined;
}

/** Returns the endpoint's URL; by default, the project's. */
export function endpointUrl(
  url: string | undefined,
  projectUrl: string | undefined,
): string {
  const chosen = url ?? `${projectUrl}/functions/v1/billing-webhook`;
  // Secrets may be sent to this host, too.
  if (safeUrl(chosen)) return chosen;
  throw new UsageError(
    "--url takes an https URL, or an http URL on this machine.",
  );
}

/**
 * Returns a secret, which can be sent in a header. No option takes one: every user of
 * the machine could read it in the list of processes, and `deno task` prints it.
 */
export function readSecret(
  variable: string,
  env: Environment,
): string | undefined {
  try {
    return env[variable] && checkKey(env[variable], variable) || undefined;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Returns the secret key of a project; by default, on this machine, the local stack's. */
export function projectKey(projectUrl: string, env: Environment): string {
  const key = readSecret("SUPABASE_SECRET_KEY", env) ??
    (isLoopback(projectUrl) ? LOCAL_SECRET_KEY : "");
  if (key !== "" && !key.startsWith("sb_publishable_")) return key;
  throw new UsageError(
    `${projectUrl} needs SUPABASE_SECRET_KEY: sb_secret_... (dashboard, Project Settings, API Keys).`,
  );
}

/**
 * Returns the project that --project-url or SUPABASE_URL names, with the secrets
 * of the environment; or else the local stack with its own. Then those of the
 * environment belong to another project, and are not sent to a port of this machine.
 */
export function readProject(
  option: string | undefined,
  { env, warn, local }: Surroundings,
): { readonly projectUrl: string; readonly secrets: Environment } {
  const projectUrl = givenProjectUrl(option, env);
  if (projectUrl !== undefined) return { projectUrl, secrets: env };

  const secrets = {
    SUPABASE_SECRET_KEY: LOCAL_SECRET_KEY,
    SUPABASE_DB_URL: local?.dbUrl ?? "",
  };
  for (const [name, secret] of Object.entries(secrets)) {
    if (env[name] && env[name] !== secret) {
      warn(
        `${name} is not used with the local stack. For another project, set SUPABASE_URL.`,
      );
    }
  }
  return { projectUrl: local?.apiUrl ?? LOCAL_PROJECT_URL, secrets };
}
