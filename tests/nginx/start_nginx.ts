/**
 * A real nginx with our file, in front of a stand-in for Supabase's edge: TLS
 * for the project's name only, and a log of requests.
 *
 * @module
 */
import { isListening } from "../../scripts/common/is_listening.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { toolEnvironment } from "../../scripts/common/create_command.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { freePort } from "../support/free_port.ts";
import { configuration } from "./configuration.ts";
import { makeCertificate } from "./make_certificate.ts";
import { type NameServer, startNameServer } from "./name_server.ts";

const SHIPPED = new URL("../../docs/rewrites/nginx.conf", import.meta.url);

/** The project that the stand-in serves. */
export const PROJECT = "abcdefghijklmnopqrst.supabase.co";
export const REGION = "eu-central-1";

/** A running nginx. */
export interface Nginx extends AsyncDisposable {
  /** The specification's path, on the user's own domain. */
  readonly url: string;
  readonly nameServer: NameServer;
  /** The next request that arrives at the project, as it was sent. */
  arrived(): Promise<Record<string, string>>;
  /** All that it has said so far. */
  output(): string;
}

/**
 * Starts nginx on free ports, in a folder of its own.
 *
 * @param projectPort Where the project's functions are reached without TLS.
 * @param options.server Directives of the server that includes our file.
 * @param options.isTrusted False gives the project a certificate that nobody
 * has reason to trust.
 */
export async function startNginx(
  projectPort: number,
  { server = "", isTrusted = true }: {
    server?: string;
    isTrusted?: boolean;
  } = {},
): Promise<Nginx> {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-nginx-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  const nameServer = opened.use(await startNameServer());
  await makeCertificate(`${folder}/project`, PROJECT);
  await makeCertificate(`${folder}/other`, PROJECT);

  const ports = { own: freePort(), project: freePort() };
  const snippet = replaced(await Deno.readTextFile(SHIPPED), {
    "<project-ref>.supabase.co": `${PROJECT}:${ports.project}`,
    "<region>": REGION,
    "resolver 1.1.1.1": `resolver 127.0.0.1:${nameServer.port}`,
    "/etc/ssl/certs/ca-certificates.crt": `${folder}/${
      isTrusted ? "project" : "other"
    }.crt`,
  });
  await Deno.writeTextFile(`${folder}/snippet.conf`, snippet);
  const arrivals = `${folder}/arrivals.log`;
  await Deno.writeTextFile(arrivals, "");
  await Deno.writeTextFile(
    `${folder}/nginx.conf`,
    configuration({ folder, ports, projectPort, server, project: PROJECT }),
  );

  const lines: string[] = [];
  const service = createService({
    name: "nginx",
    command: "nginx",
    args: ["-p", folder, "-c", `${folder}/nginx.conf`, "-e", "stderr"],
    env: toolEnvironment(),
    cwd: folder,
    isReady: () => isListening(ports.own),
    stopSignal: "SIGTERM",
  }, {
    onLog: (line) => lines.push(line),
    onUnexpectedEnd: (text) => lines.push(text),
  });
  opened.defer(service.stop);
  await service.start();

  let read = 0;
  async function arrived() {
    const logged = async () =>
      (await Deno.readTextFile(arrivals)).split("\n").slice(0, -1);
    const isThere = await waitUntil(
      async () => (await logged()).length > read,
      { timeoutMs: HANG_LIMIT_MS },
    );
    if (!isThere) throw new Error(`Nothing arrived\n${lines.join("\n")}`);
    return JSON.parse((await logged())[read++]!);
  }

  const owned = opened.move();
  return {
    url: `http://127.0.0.1:${ports.own}/api/billing/webhook`,
    nameServer,
    arrived,
    output: () => lines.join("\n"),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function replaced(text: string, values: Record<string, string>): string {
  for (const [name, value] of Object.entries(values)) {
    if (!text.includes(name)) throw new Error(`${name} is not in the file`);
    text = text.replaceAll(name, value);
  }
  return text;
}
