/**
 * The real nginx with the file that we ship, in front of a stand-in for
 * Supabase's edge: TLS for the project's name alone, and a log of what arrives.
 *
 * @module
 */
import { createService } from "../../scripts/stack/service.ts";
import { runTool } from "../../scripts/stack/run_tool.ts";
import { toolEnvironment } from "../../scripts/stack/tool_environment.ts";
import { waitUntil } from "../../scripts/stack/wait_until.ts";
import { freePort } from "../support/free_port.ts";
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
    configuration({ folder, ports, projectPort, server }),
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
    onLog: ({ text }) => lines.push(text),
    onProcess: () => Promise.resolve(),
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
      { timeout: 5_000 },
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

function configuration(
  { folder, ports, projectPort, server }: {
    folder: string;
    ports: { own: number; project: number };
    projectPort: number;
    server: string;
  },
): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ");
  return `
daemon off;
pid ${folder}/nginx.pid;
error_log stderr warn;
worker_processes 1;
${Deno.uid() === 0 ? "user root;" : ""}
events {
  worker_connections 64;
}
http {
  ${temporary}
  access_log off;
  log_format arrival escape=json '{"name":"$ssl_server_name","host":"$host",'
    '"request":"$request","length":"$http_content_length",'
    '"coding":"$http_transfer_encoding","forwarded":"$http_x_forwarded_for"}';

  server {
    listen 127.0.0.1:${ports.own};
    server_name billing.example.com;
    ${server}
    include ${folder}/snippet.conf;
    location / {
      return 418 "the app's own page";
    }
  }

  server {
    listen 127.0.0.1:${ports.project} ssl default_server;
    ssl_reject_handshake on;
  }
  server {
    listen 127.0.0.1:${ports.project} ssl;
    server_name ${PROJECT};
    ssl_certificate ${folder}/project.crt;
    ssl_certificate_key ${folder}/project.key;
    access_log ${folder}/arrivals.log arrival;
    underscores_in_headers on;
    client_max_body_size 0;
    client_body_buffer_size 4m;
    location / {
      proxy_http_version 1.1;
      proxy_pass http://127.0.0.1:${projectPort};
    }
  }
}
`;
}

/** A key and a certificate that is its own authority. */
async function makeCertificate(path: string, name: string): Promise<void> {
  await runTool({
    purpose: "make a certificate",
    command: "openssl",
    args: [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "1",
      "-subj",
      `/CN=${name}`,
      "-addext",
      `subjectAltName=DNS:${name}`,
      "-keyout",
      `${path}.key`,
      "-out",
      `${path}.crt`,
    ],
    env: toolEnvironment(),
    cwd: "/",
  });
}

function replaced(text: string, values: Record<string, string>): string {
  for (const [name, value] of Object.entries(values)) {
    if (!text.includes(name)) throw new Error(`${name} is not in the file`);
    text = text.replaceAll(name, value);
  }
  return text;
}

async function isListening(port: number): Promise<boolean> {
  try {
    using _connection = await Deno.connect({ hostname: "127.0.0.1", port });
    return true;
  } catch {
    return false;
  }
}
