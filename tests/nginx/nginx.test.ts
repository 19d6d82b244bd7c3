/**
 * `docs/rewrites/nginx.conf` in a real nginx, in front of a stand-in for
 * Supabase's edge. Only names and certificates are replaced.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createCommand } from "../../scripts/common/create_command.ts";
import { toolEnvironment } from "../../scripts/local_stack/tools.ts";
import { isListening } from "../../scripts/common/loopback.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import {
  AUTHORITY,
  CERTIFICATE,
  KEY,
  OTHER_AUTHORITY,
} from "../support/certificates.ts";
import { readPage } from "../support/docs.ts";
import { freePort } from "../support/machine.ts";
import { post } from "../support/send.ts";

const LIMIT = 1_048_576;
const PROJECT = "abcdefghijklmnopqrst.supabase.co";

await createCommand("nginx", { args: ["-v"] }).output().catch(() => {
  throw new Error(
    "Cannot test the rewrite: nginx is not in PATH. On Debian: apt-get install nginx-light (with root's PATH, which has /usr/sbin)",
  );
});

const TEXT = '{ "note":\r\n "🐎 \\u00e9" }\n';

/** What arrives at the project, and the status of its answer. */
const arrived: { line: string; headers: Headers; body: Uint8Array }[] = [];
let status = 200;
const listen = { hostname: "127.0.0.1", port: 0, onListen() {} };
const project = Deno.serve(listen, async (request) => {
  const line = `${request.method} ${request.url}`;
  const headers = new Headers(request.headers);
  arrived.push({ line, headers, body: await request.bytes() });
  return new Response("The project's", { status });
});
const nginx = await startNginx();
Deno.test.afterAll(async () => {
  await nginx[Symbol.asyncDispose]();
  await project.shutdown();
});

/** Starts nginx, which trusts the project's certificate, or another's. */
async function startNginx({ isTrusted = true } = {}) {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-nginx-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  const port = freePort();
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
    "trusted.crt": isTrusted ? AUTHORITY : OTHER_AUTHORITY,
    "edge.crt": CERTIFICATE,
    "edge.key": KEY,
    "nginx.conf": configuration(folder, port),
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
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * A server that includes our file, with what servers have for the other things
 * that they serve, and the edge: TLS for the project's name only. Where nginx
 * knows a group of servers by the name, it asks no name server.
 */
function configuration(folder: string, port: number): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ");
  const edge = `127.0.0.1:${freePort()}`;
  return `daemon off;
pid ${folder}/nginx.pid;
error_log stderr warn;
${Deno.uid() === 0 ? "user root;" : ""}
events {}
http {
  ${temporary}
  access_log off;
  upstream ${PROJECT} { server ${edge}; }
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
    listen ${edge} ssl default_server;
    ssl_reject_handshake on;
  }
  server {
    listen ${edge} ssl;
    server_name ${PROJECT};
    ssl_certificate ${folder}/edge.crt;
    ssl_certificate_key ${folder}/edge.key;
    client_max_body_size 0;
    client_body_buffer_size 4m;
    location / {
      proxy_set_header Host $host;
      proxy_pass http://127.0.0.1:${project.addr.port};
    }
  }
}`;
}

Deno.test("nginx passes an event on to the project, at its name and region, signature and all", async () => {
  const headers = {
    "Stripe-Signature": "t=1,v1=ab",
    "X-Forwarded-For": "10.0.0.1, 10.0.0.2",
  };
  const answer = await post(`${nginx.url}?x=1`, { headers, body: TEXT });
  assertEquals([answer.status, answer.body], [200, "The project's"]);
  const passed = arrived.pop()!;
  assertEquals(new TextDecoder().decode(passed.body), TEXT);
  assertEquals([
    passed.line,
    ...["stripe-signature", "x-forwarded-for"]
      .map((name) => passed.headers.get(name)),
  ], [
    `POST http://${PROJECT}/functions/v1/billing-webhook?forceFunctionRegion=eu-central-1`,
    ...["t=1,v1=ab", "127.0.0.1"],
  ]);
});

Deno.test("nginx limits the body, of any kind, chunked or not, and keeps none in a file", async () => {
  for (const [length, status] of [[LIMIT, 200], [LIMIT + 1, 413]] as const) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 7) % 256);
    for (const body of [bytes, new Blob([bytes]).stream()]) {
      assertEquals((await post(nginx.url, { body })).status, status);
      const passed = arrived.pop()?.body;
      assert(
        status === 413 ? !passed : bytes.every((b, i) => b === passed![i]),
      );
    }
  }
  assert(!nginx.output().includes("temporary file"), nginx.output());
});

Deno.test("nginx lets the receiver's refusals through as they are, and leaves other paths to the app", async () => {
  for (status of [400, 401, 405, 422, 500, 503]) {
    const refused = await post(nginx.url, { body: "{}" });
    assertEquals([refused.status, refused.body], [status, "The project's"]);
    assertEquals((await post(`${nginx.url}/x`, { body: "{}" })).status, 418);
  }
});

Deno.test("nginx sends nothing to a project that it cannot identify", async () => {
  arrived.length = 0;
  await using other = await startNginx({ isTrusted: false });
  assertEquals((await post(other.url, { body: "{}" })).status, 502);
  assertEquals(arrived, []);
  assertStringIncludes(other.output(), "certificate verify error");
});
