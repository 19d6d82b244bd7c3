import { aborted } from "node:util";
import { abortOnEnd } from "./common/abort_on_end.ts";
import { commandLine, print, reportEnd, UsageError } from "./common/cli.ts";
import { requireDeno } from "./common/deno_version.ts";
import {
  lookAround,
  PROJECT_ENVIRONMENT,
  PROJECT_OPTION,
  projectKey,
  readProject,
  type Surroundings,
} from "./common/option_values.ts";
import type { ProjectAccess } from "./common/project_api.ts";
import { createConsole, createSession } from "./console/app.tsx";
import { openProject } from "./console/project.ts";

const DEFAULT_PORT = 54340;
const HOSTNAME = "127.0.0.1";

const parse = commandLine({
  usage: "console",
  summary:
    `Serves a page on this machine that shows what is failing, and repairs, retries
and resolves it; and what an account has. Only the browser that opens the
printed link has access.`,
  options: {
    ...PROJECT_OPTION,
    "--port NUMBER":
      `the port of 127.0.0.1 to listen on (default: ${DEFAULT_PORT}; 0: any free one)`,
  },
  environment: PROJECT_ENVIRONMENT,
});

requireDeno("2.9.5"); // util.diff
if (import.meta.main) Deno.exit(await main(Deno.args).catch(reportEnd));

async function main(args: readonly string[]): Promise<number> {
  const here = await lookAround();
  const { port, ...access } = parseConsoleArguments(args, here);

  const ending = new AbortController();
  await abortOnEnd(ending, here.env);
  await using running = serveConsole(access, port);
  print(
    `Console for ${access.projectUrl}. Open this link, which works once:`,
    `  ${running.link}`,
    "Stop with Ctrl-C",
  );
  await aborted(ending.signal, ending);
  return 0;
}

export function parseConsoleArguments(
  args: readonly string[],
  here: Surroundings,
) {
  const { values } = parse(args);
  const { projectUrl, secrets } = readProject(values["project-url"], here);
  return {
    projectUrl,
    secretKey: projectKey(projectUrl, secrets),
    port: readPort(values.port),
  };
}

function readPort(text = `${DEFAULT_PORT}`): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (port <= 65535) return port;
  throw new UsageError("--port takes a number from 0 to 65535.");
}

export function serveConsole(access: ProjectAccess, port: number) {
  const session = createSession();
  const project = openProject(access);
  const app = createConsole({ project, session, host: () => host });
  const server = listen(port, (request) => app.fetch(request));
  const host = `${HOSTNAME}:${server.addr.port}`;

  return {
    link: `http://${host}/?token=${session.token}`,
    [Symbol.asyncDispose]: async () => {
      // Browsers keep connections open, so this does not wait until all are closed.
      const timeout = new Promise((resolve) => setTimeout(resolve, 500));
      await Promise.race([server.shutdown(), timeout]);
    },
  };
}

function listen(port: number, handler: Deno.ServeHandler) {
  try {
    return Deno.serve({ hostname: HOSTNAME, port, onListen() {} }, handler);
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    throw new Error(
      `Port ${port} is in use. Choose another with --port, or --port=0 for any.`,
    );
  }
}
