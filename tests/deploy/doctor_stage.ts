import type { DoctorArguments } from "../../scripts/doctor/arguments.ts";
import type { RequestTools } from "../../scripts/common/send_request.ts";
import type { Check, CheckContext } from "../../scripts/doctor/check.ts";
import { migrationText } from "../../scripts/dev/migration.ts";
import { publicNames } from "../../scripts/doctor/check_migration.ts";
import { checkDeployment } from "../../scripts/doctor.ts";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { serveFunction } from "../support/serve_function.ts";
import { setting } from "../support/test_environment.ts";

/** What answers instead of the deployment, for a path; or nothing. */
export type Instead = (path: string) => Response | undefined;

/** A deployment to look at, with both functions behind one address. */
export interface DoctorStage extends AsyncDisposable {
  readonly projectUrl: string;
  /** Looks at it, with what is given changed; findings by name. */
  look(changes?: {
    target?: Partial<DoctorArguments>;
    here?: Partial<CheckContext>;
    tools?: Partial<RequestTools>;
    instead?: Instead;
  }): Promise<Record<string, Check>>;
}

/** Serves both functions, and the REST API of the stack under test. */
export async function startDoctorStage(): Promise<DoctorStage> {
  await using opened = new AsyncDisposableStack();
  const webhook = opened.use(
    await serveFunction("billing-webhook", { env: {} }),
  );
  const worker = opened.use(await serveFunction("billing-worker", { env: {} }));
  let instead: Instead = () => undefined;

  function targetOf(path: string): string | undefined {
    if (path === "/functions/v1/billing-webhook") return webhook.url;
    if (path === "/functions/v1/billing-worker") return worker.url;
    if (path.startsWith("/rest/v1/")) return setting("TEST_API_URL") + path;
    return undefined;
  }

  const server = opened.use(
    Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {} },
      async (request) => {
        const { pathname: path, search } = new URL(request.url);
        const target = targetOf(path);
        return instead(path) ??
          (target === undefined
            ? new Response("Not Found", { status: 404 })
            : await forward(request, target + search));
      },
    ),
  );
  const projectUrl = `http://127.0.0.1:${server.addr.port}`;
  const { secret } = await localKeys();
  const owned = opened.move();

  return {
    projectUrl,
    async look(changes = {}) {
      instead = changes.instead ?? (() => undefined);
      const findings = checkDeployment({
        url: `${projectUrl}/functions/v1/billing-webhook`,
        projectUrl,
        secretKey: secret,
        dbUrl: setting("TEST_DATABASE_URL"),
        provider: "a",
        ...changes.target,
      }, {
        here: {
          env: LOCAL_SIGNING_SECRETS,
          publicNames: publicNames(await migrationText()),
          ...changes.here,
        },
        tools: { fetch, clock: Date.now, ...changes.tools },
      });
      return Object.fromEntries(await Array.fromAsync(findings));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function forward(request: Request, target: string): Promise<Response> {
  const { method, headers } = request;
  const body = method === "POST" ? await request.bytes() : null;
  return await fetch(target, { method, headers, body });
}
