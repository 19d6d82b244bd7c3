import { assert, assertEquals, assertMatch } from "@std/assert";
import { Buffer } from "node:buffer";
import { routeOf, startGateway } from "../../../scripts/local_stack/gateway.ts";
import { localKeys, signToken } from "../../../scripts/local_stack/keys.ts";
import { waitUntil } from "../../../scripts/local_stack/wait_until.ts";
import { freePort } from "../../support/machine.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const keys = await localKeys();
const WEBHOOK = "/api/billing/webhook";
const REST = "/rest/v1/billing_subscriptions";
const HERE = { hostname: "127.0.0.1", port: 0, onListen() {} };

let serve: (request: Request) => Response | Promise<Response>;
const services = Deno.serve(HERE, (request) => serve(request));
const { port } = services.addr;
const targets = { rest: port, webhook: port, worker: port };
const gateway = await startGateway(0, { targets, keys });
Deno.test.afterAll(async () => {
  await gateway.close();
  await services.shutdown();
});

async function exchange(
  line: string,
  { headers = "Host: 127.0.0.1\r\n", body = "" } = {},
): Promise<string> {
  const to = { hostname: "127.0.0.1", port: gateway.port };
  const connection = await Deno.connect(to);
  const hangs = setTimeout(() => connection.close(), HANG_LIMIT_MS);

  const text = `${line} HTTP/1.1\r\nConnection: close\r\n${headers}\r\n${body}`;
  await connection.write(Buffer.from(text, "latin1"));
  const answer = await new Response(connection.readable).bytes();
  clearTimeout(hangs);
  return Buffer.from(answer).toString("latin1");
}

Deno.test("gateway passes bodies and headers on as they are", async () => {
  const packed = "\x00\xff".repeat(500); // says gzip, and is not
  const bytes = Buffer.from(packed, "latin1");
  serve = async (request) => {
    const { connection: _, ...headers } = Object.fromEntries(request.headers);
    const same = Buffer.compare(await request.bytes(), bytes) === 0;
    const seen = JSON.stringify({ ...headers, same });
    return new Response(bytes, {
      headers: { "content-encoding": "gzip", seen },
    });
  };

  const answer = await exchange(`POST ${WEBHOOK}?%zz`, {
    headers:
      "Host: a.test\r\nStripe-Signature:  t=1,v1=ab\r\nX: a\r\nx: b\r\nUpgrade: x\r\nContent-Length: 1000\r\n",
    body: packed,
  });

  const [head, body] = answer.split("\r\n\r\n");
  assertMatch(head!, /content-encoding: gzip/);
  assertEquals(JSON.parse(/seen: (.*)/.exec(head!)![1]!), {
    "content-length": "1000",
    host: "a.test",
    x: "a, b",
    same: true,
    "stripe-signature": "t=1,v1=ab",
  });
  assert(body === packed);
});

Deno.test("gateway replaces keys by their role's token, and refuses others", async () => {
  // The tokens of every local stack.
  assert(keys.anon.endsWith(".CRXP1A7WOeoJeXxjNni43kdQwgnWNReilDMblYTn_I0"));
  const service = ".EGIM96RAZx35lJzdJsyH-qQwv8Hdp7fsn3W0YpN81IU";
  assert(keys.serviceRole.endsWith(service));

  const user = `Bearer ${await signToken({ role: "user", exp: 4e9 })}`;
  const expired = await signToken({ role: "service_role", exp: 1.7e9 });
  const unsigned = [{ alg: "none" }, { role: "service_role" }]
    .map((part) => btoa(JSON.stringify(part)).replaceAll("=", "")).join(".");

  serve = ({ headers }) => new Response(headers.get("authorization"));
  for (
    const [apikey, authorization, expected] of [
      [keys.secret, `Bearer ${keys.secret}`, `Bearer ${keys.serviceRole}`],
      [keys.publishable, "", `Bearer ${keys.anon}`],
      [keys.publishable, user, user],
      [keys.anon, "", `Bearer ${keys.anon}`],
      ["sb_secret_wrong", user, 401],
      [`${keys.anon}x`, "", 401],
      [expired, "", 401],
      [`${unsigned}.`, "", 401],
    ] as const
  ) {
    const headers = { apikey, ...authorization && { authorization } };
    const url = `http://127.0.0.1:${gateway.port}${REST}`;
    const response = await fetch(url, { headers });
    const text = await response.text();
    assertEquals(response.ok ? text : response.status, expected);
  }
});

Deno.test("gateway serves the REST API and the worker only under local host names", async () => {
  serve = () => new Response();
  for (
    const [host, status] of [
      ["127.0.0.1", 200],
      ["127.evil.example", 403],
      ["localhost.evil.example:54321", 403],
      ["", 403],
      ["localhost\r\nHost: evil.example", 403],
      // A tunnel that puts this machine's name into Host.
      ["localhost\r\nX-Forwarded-Host: evil.example", 403],
    ] as const
  ) {
    const headers = `Host: ${host}\r\napikey: ${keys.secret}\r\n`;
    for (const path of [REST, "/functions/v1/billing-worker"]) {
      const answer = await exchange(`GET ${path}`, { headers });
      assertEquals(answer.split(" ")[1], `${status}`, `${path}, ${headers}`);
    }
    if (host.includes("Host:")) continue; // the service refuses two
    // A tunnel leads to the webhook, which verifies the signature itself.
    const answer = await exchange(`GET ${WEBHOOK}`, { headers });
    assertEquals(answer.split(" ")[1], "200");
  }
});

Deno.test("routeOf() knows the platform's paths, and no others", () => {
  for (
    const [target, to, path] of [
      [`${REST}?id=eq.%2F`, "rest", "/billing_subscriptions?id=eq.%2F"],
      ["/functions/v1/billing-webhook/a?b", "webhook", "/billing-webhook/a?b"],
      [`http://127.0.0.1:54321${WEBHOOK}`, "webhook", WEBHOOK],
      ["/rest/v10"],
      ["/functions/v1/billing-webhooks"],
      ["/functions/v1/../rest/v1/billing_subscriptions"],
      ["//rest/v1/"],
    ]
  ) assertEquals(routeOf(target!), to && { to, path });
});

Deno.test("gateway answers 503 until the service listens, and 502 if it closes", async () => {
  const port = await freePort();
  await using opened = new AsyncDisposableStack();
  const gateway = await startGateway(0, { targets: { webhook: port }, keys });
  opened.defer(gateway.close);
  async function post(size = 1) {
    const url = `http://127.0.0.1:${gateway.port}${WEBHOOK}`;
    const body = new Uint8Array(size);
    const response = await fetch(url, {
      method: "POST",
      body,
      signal: AbortSignal.timeout(HANG_LIMIT_MS),
    });
    const text = await response.text();
    return response.ok ? text : response.status;
  }

  assertEquals([await post(), await post(3_000_000)], [503, 503]);
  {
    using listener = Deno.listen({ hostname: "127.0.0.1", port });
    const closed = listener.accept().then((connection) => connection.close());
    assertEquals(await post(), 502);
    await closed;
  }

  for (const said of ["first", "second"]) {
    const server = Deno.serve({ ...HERE, port }, () => new Response(said));
    const isServed = async () => await post() === said;
    await waitUntil(isServed, { timeoutMs: HANG_LIMIT_MS });
    await server.shutdown();
  }
});
