import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/local_stack.ts";
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";
import { LOCAL_PROJECT_URL } from "../common/loopback.ts";
import { checkedKey, givenProjectUrl } from "../common/option_values.ts";
import { projectKey } from "../common/project_key.ts";
import type { RunningStack } from "../common/running_stack.ts";
import type { ProjectAccess } from "./project.ts";

/** Which project to show, and where. */
export interface ConsoleArguments extends ProjectAccess {
  /** Of 127.0.0.1; 0 for any free port. */
  readonly port: number;
  readonly opensBrowser: boolean;
}

const DEFAULT_PORT = 54340;

const COMMAND_LINE = {
  usage: "console",
  summary:
    `Opens a page on this machine that shows what is failing, and repairs, retries
and resolves it. Only the browser that opens the printed link is let in.`,
  options: {
    "--project-url URL":
      `https://<project-ref>.supabase.co, also SUPABASE_URL (default: the local stack that runs, else ${LOCAL_PROJECT_URL})`,
    "--port NUMBER":
      `the port of 127.0.0.1 to listen on (default: ${DEFAULT_PORT}; 0: any free one)`,
    "--no-open": "print the link, and do not open a browser",
  },
  environment: {
    SUPABASE_SECRET_KEY:
      "sb_secret_..., if a URL is given (default for a local project: the local stack's). It stays in this process.",
  },
  details:
    `Ctrl-C ends it. Exit code: 0 if it was ended so, 1 if it cannot listen, 2 for a
wrong command line.`,
} as const satisfies CommandLine;

/**
 * Parses the command line of `deno task console`.
 *
 * @param here.local The local stack, if one runs. It is shown if no URL is
 * given.
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseConsoleArguments(
  args: readonly string[],
  { env, local }: { env: Environment; local?: RunningStack | undefined },
): ConsoleArguments {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  const given = givenProjectUrl(values["project-url"], env);
  const projectUrl = given ?? local?.apiUrl ?? LOCAL_PROJECT_URL;
  return {
    projectUrl,
    // A key in the environment belongs to the project that is named there too.
    secretKey: given === undefined ? LOCAL_SECRET_KEY : readKey(given, env),
    port: readPort(values.port),
    opensBrowser: values["no-open"] === undefined,
  };
}

function readKey(projectUrl: string, env: Environment): string {
  const name = "SUPABASE_SECRET_KEY";
  return checkedKey(name, projectKey(projectUrl, env[name]));
}

function readPort(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PORT;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (port <= 65535) return port;
  throw new UsageError("--port takes a number from 0 to 65535.");
}
