import { createConsole } from "./app.ts";
import { readOverview } from "./overview.ts";
import { overviewPage } from "./pages/overview.ts";
import { openProject, type Project, type ProjectAccess } from "./project.ts";
import { readRunbook } from "./runbook.ts";
import { createSession } from "./session.ts";

const STYLE = new URL("style.css", import.meta.url);
const HOSTNAME = "127.0.0.1";

/** A console that listens. */
export interface RunningConsole extends AsyncDisposable {
  /** The link that lets a browser in. It works once. */
  readonly link: string;
}

/**
 * Listens on 127.0.0.1.
 *
 * @throws {Error} If the port is in use.
 */
export async function serveConsole(
  access: ProjectAccess,
  { port }: { port: number },
): Promise<RunningConsole> {
  const session = createSession();
  const [style, runbook] = await Promise.all([
    Deno.readTextFile(STYLE),
    readRunbook(),
  ]);
  const project = openProject(access, { fetch });
  const app = createConsole({
    project,
    session,
    runbook,
    style,
    host: () => host,
    clock: Date.now,
  });
  const server = listen(port, app.fetch);
  const host = `${HOSTNAME}:${server.addr.port}`;
  warmUp(project, runbook);
  return {
    link: `http://${host}/?token=${session.token}`,
    // At once: a browser keeps its connections open.
    [Symbol.asyncDispose]: async () => {
      const ending = server.shutdown();
      await Promise.race([
        ending,
        new Promise((done) => setTimeout(done, 500)),
      ]);
    },
  };
}

/**
 * Makes the first page once, before somebody waits for it: the first use of
 * fetch and of number formats takes about 100 ms. A page says what is wrong.
 */
function warmUp(
  project: Project,
  runbook: Awaited<ReturnType<typeof readRunbook>>,
): void {
  readOverview(project)
    .then((overview) => `${overviewPage(overview, runbook)}`)
    .catch(() => {});
}

function listen(
  port: number,
  handler: (request: Request) => Response | Promise<Response>,
) {
  try {
    return Deno.serve(
      { hostname: HOSTNAME, port, onListen() {} },
      (request) => handler(request),
    );
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    throw new Error(
      `Port ${port} is in use. Is another console running? Choose another one with --port, or --port=0 for any.`,
    );
  }
}
