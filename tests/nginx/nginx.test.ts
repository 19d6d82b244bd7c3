/**
 * `docs/rewrites/nginx.conf` unchanged in a real nginx, in front of the
 * receiver. A signature covers every byte of a body, so 200 means that no byte
 * was changed.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createCommand } from "../../scripts/common/create_command.ts";
import { gatewayTo } from "../support/receiver_gateway.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver, post, providerHeaders } from "../support/send.ts";
import { connect, subscriptionRecord } from "../support/tables.ts";
import { type Nginx, PROJECT, REGION, startNginx } from "./start_nginx.ts";

await checkInstalled();

const LIMIT = 1_048_576;

/** What servers have for the other things that they serve. */
const BUSY_SERVER = `
  proxy_set_header Host $host;
  proxy_set_header Accept-Encoding "";
  proxy_intercept_errors on;
  error_page 400 401 404 405 415 422 500 503 = /error;
  gzip on;
  gzip_min_length 0;
  gzip_types *;
`;

const sql = connect();
const receiver = await startReceiver();
const gateway = await gatewayTo(receiver);
const projectPort = Number(new URL(gateway.url).port);
const nginx = await startNginx(projectPort, { server: BUSY_SERVER });
Deno.test.afterAll(async () => {
  await nginx[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

async function checkInstalled(): Promise<void> {
  for (
    const [command, argument] of [["nginx", "-v"], ["openssl", "version"]]
  ) {
    try {
      await createCommand(command!, { args: [argument!] }).output();
    } catch {
      throw new Error(
        `Cannot test the rewrite: ${command} is not in PATH. On Debian: apt-get install nginx-light openssl (with root's PATH, which has /usr/sbin)`,
      );
    }
  }
}

function creation(subscription = uniqueId("sub")): string {
  return JSON.stringify(
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
}

/** Sends a body without its length. */
async function deliverChunked(url: string, body: string) {
  return await post(url, {
    headers: providerHeaders(body, "a"),
    body: new Blob([body]).stream(),
  });
}

Deno.test("nginx passes a signed event on to the project, at its name and region", async () => {
  const subscription = uniqueId("sub");
  const body = creation(subscription);
  const { status, body: text } = await post(`${nginx.url}?x=1`, {
    headers: {
      ...providerHeaders(body, "a"),
      "X-Forwarded-For": "10.0.0.1, 10.0.0.2",
    },
    body,
  });
  assertEquals({ status, text }, { status: 200, text: "OK" });
  assert(await subscriptionRecord(sql, subscription) !== undefined);
  assertEquals(await nginx.arrived(), {
    name: PROJECT,
    host: PROJECT,
    request:
      `POST /functions/v1/billing-webhook?forceFunctionRegion=${REGION} HTTP/1.1`,
    length: `${new TextEncoder().encode(body).length}`,
    coding: "",
    forwarded: "127.0.0.1",
  });
  assert(nginx.nameServer.asked.includes(PROJECT));
});

const withSpace = creation().replaceAll(",", " ,\r\n\t ") + "\n \n";
const withOthers = creation().replace(
  "{",
  '{"note":"Žluťoučký kůň 🐎 \u2028 \\u00e9 e\u0301 \u00a0",',
);
for (
  const [what, body] of [
    ["white space of all kinds", withSpace],
    ["characters outside ASCII", withOthers],
    ["exactly the limit", padded(creation(), LIMIT)],
  ] as const
) {
  Deno.test(`nginx changes nothing in a body with ${what}`, async () => {
    assertEquals((await deliver(nginx.url, body)).status, 200);
  });

  Deno.test(`nginx changes nothing in a chunked body with ${what}`, async () => {
    assertEquals((await deliverChunked(nginx.url, body)).status, 200);
  });
}

Deno.test("nginx changes nothing in bytes that are no text", async () => {
  const bytes = Uint8Array.of(0x7b, 0xff, 0x00, 0x0d, 0x0a, 0x7d);
  const { status, body } = await deliver(nginx.url, bytes);
  // Not 401: the signature was good.
  assertEquals(status, 400);
  assertStringIncludes(body, "UTF-8");
});

Deno.test("nginx keeps no body in a file", () => {
  assert(!nginx.output().includes("temporary file"), nginx.output());
});

Deno.test("nginx refuses a body over the limit with 413, as the receiver does", async () => {
  const body = padded(creation(), LIMIT + 1);
  assertEquals((await deliver(nginx.url, body)).status, 413);
  assertEquals((await deliverChunked(nginx.url, body)).status, 413);
});

Deno.test("nginx lets the receiver's refusals through as they are", async () => {
  const body = creation();
  const answers = {
    forged: await post(nginx.url, {
      headers: providerHeaders(`${body} `, "a"),
      body,
    }),
    unsigned: await post(nginx.url, { body }),
    get: await post(nginx.url, { method: "GET" }),
    compressed: await post(nginx.url, {
      headers: {
        ...providerHeaders(body, "a"),
        "Content-Encoding": "gzip",
      },
      body,
    }),
    invalid: await deliver(nginx.url, "{}"),
  };
  assertEquals(
    Object.entries(answers).map(([name, { status, body }]) =>
      `${name}: ${status} ${body}`
    ),
    [
      "forged: 401 Invalid signature",
      "unsigned: 401 Invalid signature",
      "get: 405 ",
      "compressed: 415 ",
      "invalid: 422 Event is not valid",
    ],
  );
  assertEquals(answers.get.headers.get("allow"), "POST");
});

Deno.test("nginx leaves every other path to the app", async () => {
  for (const path of ["/", "/x", "x"]) {
    const { status } = await deliver(`${nginx.url}${path}`, creation());
    assertEquals(status, 418, path);
  }
});

Deno.test("nginx asks for the body if the sender waits for that", async () => {
  const body = creation();
  const headers = Object.entries(providerHeaders(body, "a"))
    .map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const { hostname, port, pathname } = new URL(nginx.url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const write = (text: string) =>
    connection.write(new TextEncoder().encode(text));
  const read = async () => {
    const space = new Uint8Array(4_096);
    const length = await connection.read(space) ?? 0;
    return new TextDecoder().decode(space.subarray(0, length));
  };
  const length = new TextEncoder().encode(body).length;
  await write(
    `POST ${pathname} HTTP/1.1\r\nHost: billing.example.com\r\n${headers}` +
      `Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  assertStringIncludes(await read(), "HTTP/1.1 100 ");
  await write(body);
  assertStringIncludes(await read(), "HTTP/1.1 200 ");
});

Deno.test("nginx sends nothing to a project that it cannot identify", async () => {
  await using other = await startNginx(projectPort, { isTrusted: false });
  const subscription = uniqueId("sub");
  const { status } = await deliver(other.url, creation(subscription));
  assertEquals(status, 502);
  assertEquals(await subscriptionRecord(sql, subscription), undefined);
  assertStringIncludes(other.output(), "certificate verify error");
});

Deno.test("nginx drops a signature header with an underscore, unless it is told not to", async () => {
  await using behind = await startReceiver({
    env: { PROVIDER_A_SIGNATURE_HEADER: "provider_a_signature" },
  });
  await using front = await gatewayTo(behind);
  const port = Number(new URL(front.url).port);
  await using deaf = await startNginx(port);
  await using told = await startNginx(port, {
    server: "underscores_in_headers on;",
  });
  assertEquals((await deliverUnderscored(deaf)).status, 401);
  assertEquals((await deliverUnderscored(told)).status, 200);
});

async function deliverUnderscored({ url }: Nginx) {
  const body = creation();
  const { "provider-a-signature": signature = "" } = providerHeaders(
    body,
    "a",
  );
  const headers = { "provider_a_signature": signature };
  return await post(url, { headers, body });
}

/** White space at the end of a body, up to a length in bytes. */
function padded(body: string, length: number): string {
  const missing = length - new TextEncoder().encode(body).length;
  return body + " ".repeat(missing);
}
