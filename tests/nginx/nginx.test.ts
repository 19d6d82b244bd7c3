/**
 * `docs/rewrites/nginx.conf` in a real nginx, in front of a stand-in for
 * Supabase's edge and the receiver. Only names and certificates are replaced. A
 * signature covers every byte of a body, so 200 means that no byte was changed.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  createCommand,
  toolEnvironment,
} from "../../scripts/common/create_command.ts";
import { isListening } from "../../scripts/common/is_listening.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { makeCertificates } from "../support/certificates.ts";
import { readPage } from "../support/doc_commands.ts";
import { freePort } from "../support/free_port.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { startReceiver } from "../support/receiver.ts";
import { gatewayTo } from "../support/receiver_gateway.ts";
import { deliver, post, providerHeaders } from "../support/send.ts";
import { connect, subscriptionRecord } from "../support/tables.ts";

const LIMIT = 1_048_576;
const PROJECT = "abcdefghijklmnopqrst.supabase.co";

await createCommand("nginx", { args: ["-v"] }).output().catch(() => {
  throw new Error(
    "Cannot test the rewrite: nginx is not in PATH. On Debian: apt-get install nginx-light (with root's PATH, which has /usr/sbin)",
  );
});

const sql = connect();
const receiver = await startReceiver();
const gateway = await gatewayTo(receiver);
const nginx = await startNginx({ isTrusted: true });
Deno.test.afterAll(async () => {
  for (const one of [nginx, gateway, receiver]) {
    await one[Symbol.asyncDispose]();
  }
  await sql.end();
});

/** Starts nginx, which trusts the project's certificate or another one's. */
async function startNginx({ isTrusted }: { isTrusted: boolean }) {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-nginx-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  const { authority, certificate, key } = await makeCertificates(PROJECT);
  const other = await makeCertificates(PROJECT);
  const [port, edgePort] = [freePort(), freePort()];
  let shipped = readPage("docs/rewrites/nginx.conf");
  for (
    const [text, instead] of [
      ["<project-ref>.supabase.co", PROJECT],
      ["<region>", "eu-central-1"],
      ["resolver 1.1.1.1", "resolver 127.0.0.1"],
      ["/etc/ssl/certs/ca-certificates.crt", `${folder}/trusted.crt`],
    ] as const
  ) {
    assertStringIncludes(shipped, text);
    shipped = shipped.replaceAll(text, instead);
  }
  const files = {
    "shipped.conf": shipped,
    "trusted.crt": isTrusted ? authority : other.authority,
    "edge.crt": certificate,
    "edge.key": key,
    "arrivals.log": "",
    "nginx.conf": configuration({ folder, port, edgePort }),
  };
  for (const [name, text] of Object.entries(files)) {
    await Deno.writeTextFile(`${folder}/${name}`, text);
  }
  const lines: string[] = [];
  const service = createService({
    name: "nginx",
    command: "nginx",
    args: ["-p", folder, "-c", `${folder}/nginx.conf`, "-e", "stderr"],
    env: toolEnvironment(),
    cwd: folder,
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  }, {
    onLog: (line) => lines.push(line),
    onUnexpectedEnd: (text) => lines.push(text),
  });
  opened.defer(service.stop);
  await service.start();
  const owned = opened.move();
  return {
    url: `http://127.0.0.1:${port}/api/billing/webhook`,
    output: () => lines.join("\n"),
    /** The request that arrived last, as it was sent. */
    arrived: async () => {
      const read = () => Deno.readTextFile(`${folder}/arrivals.log`);
      const isThere = async () => (await read()).endsWith("\n");
      await waitUntil(isThere, { timeoutMs: HANG_LIMIT_MS });
      return JSON.parse((await read()).trim().split("\n").at(-1)!);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * A server that includes our file, with what servers have for the other things
 * that they serve, and the edge: TLS for the project's name only. Where nginx
 * knows a group of servers by the name, it asks no name server.
 */
function configuration(
  { folder, port, edgePort }: {
    folder: string;
    port: number;
    edgePort: number;
  },
): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ");
  return `daemon off;
pid ${folder}/nginx.pid;
error_log stderr warn;
${Deno.uid() === 0 ? "user root;" : ""}
events {}
http {
  ${temporary}
  access_log off;
  log_format arrival escape=json '{"name":"$ssl_server_name","host":"$host",'
    '"request":"$request","forwarded":"$http_x_forwarded_for"}';
  upstream ${PROJECT} { server 127.0.0.1:${edgePort}; }
  server {
    listen 127.0.0.1:${port};
    proxy_set_header Host $host;
    proxy_intercept_errors on;
    error_page 400 401 404 405 415 422 500 503 = /error;
    gzip on;
    gzip_min_length 0;
    gzip_types *;
    include ${folder}/shipped.conf;
    location / { return 418 "the app's own page"; }
  }
  server {
    listen 127.0.0.1:${edgePort} ssl default_server;
    ssl_reject_handshake on;
  }
  server {
    listen 127.0.0.1:${edgePort} ssl;
    server_name ${PROJECT};
    ssl_certificate ${folder}/edge.crt;
    ssl_certificate_key ${folder}/edge.key;
    access_log ${folder}/arrivals.log arrival;
    client_max_body_size 0;
    client_body_buffer_size 4m;
    location / { proxy_pass ${new URL(gateway.url).origin}; }
  }
}`;
}

function creation(subscription = uniqueId("sub")): string {
  return JSON.stringify(
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
}

/** White space at the end of a body, up to a length in bytes. */
function padded(length: number): string {
  const body = creation().replaceAll(",", " ,\r\n\t")
    .replace("{", '{"note":"Žluťoučký kůň 🐎 \\u00e9 e\u0301",');
  return body + " ".repeat(length - new TextEncoder().encode(body).length);
}

Deno.test("nginx passes a signed event on to the project, at its name and region", async () => {
  const subscription = uniqueId("sub");
  const body = creation(subscription);
  const headers = {
    ...providerHeaders(body, "a"),
    "X-Forwarded-For": "10.0.0.1, 10.0.0.2",
  };
  const answer = await post(`${nginx.url}?x=1`, { headers, body });
  assertEquals([answer.status, answer.body], [200, "OK"]);
  assert(await subscriptionRecord(sql, subscription) !== undefined);
  assertEquals(await nginx.arrived(), {
    name: PROJECT,
    host: PROJECT,
    request:
      "POST /functions/v1/billing-webhook?forceFunctionRegion=eu-central-1 HTTP/1.1",
    forwarded: "127.0.0.1",
  });
});

for (const [length, status] of [[LIMIT, 200], [LIMIT + 1, 413]] as const) {
  Deno.test(`nginx answers ${status} to ${length} bytes, chunked or not, and keeps none in a file`, async () => {
    const body = padded(length);
    const headers = providerHeaders(body, "a");
    const chunked = await post(nginx.url, {
      headers,
      body: new Blob([body]).stream(),
    });
    assertEquals(chunked.status, status);
    assertEquals((await deliver(nginx.url, padded(length))).status, status);
    assert(!nginx.output().includes("temporary file"), nginx.output());
  });
}

Deno.test("nginx lets the receiver's refusals through as they are, and leaves other paths to the app", async () => {
  const answers = [
    await post(nginx.url, { body: creation() }),
    await post(nginx.url, { method: "GET" }),
    await deliver(nginx.url, Uint8Array.of(0x7b, 0xff, 0x00, 0x0d, 0x0a, 0x7d)),
    await deliver(nginx.url, "{}"),
    await deliver(`${nginx.url}/x`, creation()),
  ];
  assertEquals(answers.map(({ status, body }) => `${status} ${body}`), [
    "401 Invalid signature",
    "405 ",
    "400 Body is not valid UTF-8",
    "422 Event is not valid",
    "418 the app's own page",
  ]);
});

Deno.test("nginx sends nothing to a project that it cannot identify", async () => {
  await using other = await startNginx({ isTrusted: false });
  const subscription = uniqueId("sub");
  const { status } = await deliver(other.url, creation(subscription));
  assertEquals(status, 502);
  assertEquals(await subscriptionRecord(sql, subscription), undefined);
  assertStringIncludes(other.output(), "certificate verify error");
});
