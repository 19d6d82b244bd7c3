import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  type Gateway,
  startGateway,
} from "../../../scripts/local_stack/gateway.ts";
import {
  decodeLatin1,
  encodeLatin1,
} from "../../../scripts/local_stack/bytes.ts";
import { localKeys } from "../../../scripts/common/keys.ts";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const keys = await localKeys();
const WEBHOOK = "/api/billing/webhook";

/** Runs a gateway in front of one handler, which is all three services. */
async function withGateway(
  handler: (request: Request) => Response | Promise<Response>,
  use: (gateway: Gateway, url: string) => Promise<void>,
): Promise<void> {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    handler,
  );
  const { port } = server.addr;
  const targets = { rest: port, webhook: port, worker: port };
  const gateway = startGateway(0, { targets, keys });
  try {
    await use(gateway, `http://127.0.0.1:${gateway.port}`);
  } finally {
    await gateway.close();
    await server.shutdown();
  }
}

/** Sends bytes to a port, and returns what comes back until it closes. */
async function exchangeBytes(port: number, sent: string): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(encodeLatin1(sent));
  const chunks: string[] = [];
  const decoder = new TextDecoder();
  for await (const chunk of connection.readable) {
    chunks.push(decoder.decode(chunk, { stream: true }));
  }
  return chunks.join("");
}

/** Runs a gateway in front of a service that answers one request with bytes. */
async function withRawService(
  answer: string,
  use: (port: number, seen: Promise<string>) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  async function serveOne(): Promise<string> {
    using connection = await listener.accept();
    const space = new Uint8Array(65_536);
    let seen = "";
    while (!/\r\n\r\n$/.test(seen) || /chunked\r\n\r\n$/i.test(seen)) {
      const length = await connection.read(space) ?? 0;
      seen += decodeLatin1(space.subarray(0, length));
    }
    if (answer) await connection.write(encodeLatin1(answer));
    return seen;
  }
  const seen = serveOne();
  const targets = { webhook: listener.addr.port };
  const gateway = startGateway(0, { targets, keys });
  try {
    await use(gateway.port, seen);
    await seen;
  } finally {
    await gateway.close();
    listener.close();
  }
}

function randomBytes(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
}

Deno.test("gateway passes bodies on unchanged, both ways", async () => {
  await withGateway(
    (request) => new Response(request.body),
    async (_gateway, url) => {
      for (const length of [0, 1, 65_537, 3_000_000]) {
        const body = randomBytes(length);
        const response = await fetch(url + WEBHOOK, { method: "POST", body });
        assertEquals(new Uint8Array(await response.arrayBuffer()), body);
      }
    },
  );
});

Deno.test("gateway neither decodes nor re-encodes an answer", async () => {
  const packed = randomBytes(1_000); // says gzip, and is not
  await withGateway(
    () => new Response(packed, { headers: { "content-encoding": "gzip" } }),
    async ({ port }) => {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port });
      await connection.write(new TextEncoder().encode(
        `POST ${WEBHOOK} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      ));
      const answer = new Uint8Array(
        await new Response(connection.readable).arrayBuffer(),
      );
      const head = new TextDecoder().decode(answer.subarray(0, 400));
      assert(/content-encoding: gzip/i.test(head));
      assertEquals(answer.subarray(-packed.length), packed);
    },
  );
});

Deno.test("gateway passes on a head and a body unchanged", async () => {
  const rest =
    "x-Twice:  a\r\nX-TWICE: b\xff\r\nHost: example.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n";
  await withRawService("HTTP/1.1 200 Fine\r\n\r\nend", async (port, seen) => {
    const answer = await exchangeBytes(
      port,
      `POST ${WEBHOOK}?%zz HTTP/1.1\r\n${rest}`,
    );
    assertEquals(answer, "HTTP/1.1 200 Fine\r\n\r\nend");
    assertEquals(await seen, `POST ${WEBHOOK}?%zz HTTP/1.1\r\n${rest}`);
  });
});

Deno.test("gateway answers 502 if the service ends during a request", async () => {
  await withRawService("", async (port) => {
    const answer = await exchangeBytes(port, `GET ${WEBHOOK} HTTP/1.1\r\n\r\n`);
    assert(answer.startsWith("HTTP/1.1 502 "), answer);
  });
});

Deno.test("gateway refuses a head that could hide a second request", async () => {
  let asked = 0;
  await withGateway(
    () => {
      asked++;
      return new Response();
    },
    async ({ port }) => {
      for (
        const line of [
          "Content-Length: 1\r\nContent-Length: 2",
          "Content-Length: 1, 1",
          "Content-Length: +1",
          "Content-Length: 1\r\nTransfer-Encoding: chunked",
          "Transfer-Encoding: gzip",
          "Transfer-Encoding : chunked",
          "X: 1\r\n folded",
          "X: 1\nY: 2",
          "no colon",
        ]
      ) {
        const answer = await exchangeBytes(
          port,
          `POST ${WEBHOOK} HTTP/1.1\r\nHost: x\r\n${line}\r\n\r\n`,
        );
        assert(answer.startsWith("HTTP/1.1 400 "), `${line}: ${answer}`);
      }
    },
  );
  assertEquals(asked, 0);
});

Deno.test("gateway serves request after request on one connection", async () => {
  await withGateway(
    async (request) =>
      new Response(`${new URL(request.url).pathname} ${await request.text()}`),
    async (_gateway, url) => {
      using client = Deno.createHttpClient({ poolMaxIdlePerHost: 1 });
      for (let i = 0; i < 10; i++) {
        for (const path of [WEBHOOK, "/rest/v1/x"]) {
          const response = await fetch(url + path, {
            client,
            method: "POST",
            body: `${i}`,
            headers: { apikey: keys.anon },
          });
          assertEquals(
            await response.text(),
            `${path.replace("/rest/v1", "")} ${i}`,
          );
        }
      }
    },
  );
});

Deno.test("gateway replaces the key by its role's token", async () => {
  await withGateway(
    (request) => new Response(request.headers.get("authorization")),
    async (_gateway, url) => {
      const headers = {
        apikey: keys.secret,
        authorization: `Bearer ${keys.secret}`,
      };
      const response = await fetch(`${url}/rest/v1/x`, { headers });
      assertEquals(await response.text(), `Bearer ${keys.serviceRole}`);
    },
  );
});

Deno.test("gateway answers 401 without a key, and passes nothing on", async () => {
  let asked = 0;
  await withGateway(
    () => {
      asked++;
      return new Response();
    },
    async (_gateway, url) => {
      for (const headers of [{}, { apikey: "sb_secret_wrong" }]) {
        const response = await fetch(`${url}/rest/v1/x`, { headers });
        assertEquals(response.status, 401);
        await response.body?.cancel();
      }
      assertEquals(asked, 0);
    },
  );
});

Deno.test("gateway passes on an answer that comes before the body is read", async () => {
  await withGateway(
    () => new Response("too large", { status: 413 }),
    async (_gateway, url) => {
      const body = randomBytes(5_000_000);
      for (let i = 0; i < 20; i++) {
        const response = await fetch(url + WEBHOOK, { method: "POST", body });
        assertEquals(response.status, 413);
        assertEquals(await response.text(), "too large");
      }
    },
  );
});

Deno.test("gateway answers 404 on other paths and 405 to TRACE and CONNECT", async () => {
  await withGateway(
    () => new Response("reached"),
    async ({ port }) => {
      const statuses = {
        "GET /elsewhere": 404,
        [`TRACE ${WEBHOOK}`]: 405,
        "CONNECT example.test:443": 405,
        [`PUT ${WEBHOOK}`]: 200,
        [`PROPFIND ${WEBHOOK}`]: 200,
      };
      for (const [line, status] of Object.entries(statuses)) {
        const answer = await exchangeBytes(
          port,
          `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
        );
        assert(answer.startsWith(`HTTP/1.1 ${status} `), `${line}: ${answer}`);
      }
    },
  );
});

Deno.test("gateway answers 400 to a malformed chunk, and passes no second request on", async () => {
  const seen: string[] = [];
  await withGateway(
    async (request) => {
      seen.push(`${request.method} ${new URL(request.url).pathname}`);
      await request.text().catch(() => "");
      return new Response("read to its end");
    },
    async ({ port }) => {
      for (const line of ["0;\n\r\n", "3\r\nabc\n0\r\n\r\n", "0\n\r\n"]) {
        const answer = await exchangeBytes(
          port,
          `POST ${WEBHOOK} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${line}GET /rest/v1/billing_subscriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
        );
        assert(answer.startsWith("HTTP/1.1 400 "), answer);
        assertEquals(answer.split("HTTP/1.1 ").length, 2, answer);
      }
    },
  );
  assertEquals(seen.filter((request) => request.startsWith("GET")), []);
});

Deno.test("gateway serves the REST API and the worker only under local host names", async () => {
  await withGateway(
    () => new Response("reached"),
    async ({ port }) => {
      const here = ["127.0.0.1", "localhost", `127.0.0.1:${port}`, "[::1]:1"];
      const elsewhere = [
        "127.evil.example",
        `localhost.evil.example:${port}`,
        "abc.ngrok.app",
        "",
      ];
      async function statusOf(path: string, headers: string): Promise<string> {
        const answer = await exchangeBytes(
          port,
          `POST ${path} HTTP/1.1\r\n${headers}apikey: ${keys.secret}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
        );
        return answer.split(" ")[1] ?? "";
      }
      for (
        const path of [
          "/rest/v1/billing_subscriptions",
          "/functions/v1/billing-worker",
        ]
      ) {
        for (const host of here) {
          assertEquals(await statusOf(path, `Host: ${host}\r\n`), "200", host);
        }
        for (const host of elsewhere) {
          assertEquals(await statusOf(path, `Host: ${host}\r\n`), "403", host);
        }
        assertEquals(await statusOf(path, ""), "403");
        const two = "Host: localhost\r\nHost: evil.example\r\n";
        assertEquals(await statusOf(path, two), "403");
        // A tunnel that puts this machine's name into Host.
        const rewritten =
          "Host: localhost\r\nX-Forwarded-Host: evil.example\r\n";
        assertEquals(await statusOf(path, rewritten), "403");
      }
      // A tunnel leads to the webhook, which verifies the signature itself.
      for (const path of [WEBHOOK, "/functions/v1/billing-webhook"]) {
        assertEquals(await statusOf(path, "Host: abc.ngrok.app\r\n"), "200");
      }
    },
  );
});

Deno.test("gateway answers 502 if nothing listens", async () => {
  const probe = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = probe.addr;
  probe.close();
  const gateway = startGateway(0, { targets: { webhook: port }, keys });
  try {
    const url = `http://127.0.0.1:${gateway.port}${WEBHOOK}`;
    for (const body of ["x", randomBytes(3_000_000)]) {
      const response = await fetch(url, { method: "POST", body });
      assertEquals(response.status, 502);
      await response.body?.cancel();
    }
  } finally {
    await gateway.close();
  }
});

Deno.test("gateway survives a client that disconnects, and closes its service connection", async () => {
  const aborted = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  await withGateway(
    async (request) => {
      if (request.method === "GET") return new Response("alive");
      arrived.resolve();
      await request.text().catch(() => aborted.resolve());
      return new Response();
    },
    async ({ port }, url) => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      await connection.write(new TextEncoder().encode(
        `POST ${WEBHOOK} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc`,
      ));
      await arrived.promise;
      connection.close();
      await aborted.promise;
      const response = await fetch(url + WEBHOOK);
      assertEquals(await response.text(), "alive");
    },
  );
});

Deno.test("gateway uses no connection that the service has closed", async () => {
  let server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("first"),
  );
  const { port } = server.addr;
  const gateway = startGateway(0, { targets: { webhook: port }, keys });
  const url = `http://127.0.0.1:${gateway.port}${WEBHOOK}`;
  assertEquals(await (await fetch(url)).text(), "first");
  await server.shutdown();
  server = Deno.serve(
    { hostname: "127.0.0.1", port, onListen() {} },
    () => new Response("second"),
  );
  assertEquals(await (await fetch(url)).text(), "second");
  await gateway.close();
  await server.shutdown();
});

// As PostgREST 12 does: it does not announce that it closes after HEAD.
for (const when of ["at once", "at the next request"]) {
  Deno.test(`gateway serves on if the service closes after HEAD, ${when}`, async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    let closed = 0;
    async function serve(connection: Deno.TcpConn) {
      const space = new Uint8Array(65_536);
      let isAfterHead = false;
      for (;;) {
        const length = await connection.read(space);
        if (length === null || isAfterHead) break;
        isAfterHead = decodeLatin1(space.subarray(0, 5)) === "HEAD ";
        await connection.write(encodeLatin1(
          `HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n${
            isAfterHead ? "" : "body"
          }`,
        ));
        if (isAfterHead && when === "at once") break;
      }
      connection.close();
      closed++;
    }
    async function serveAll() {
      for await (const connection of listener) serve(connection);
    }
    const serving = serveAll();
    const { port } = listener.addr;
    const gateway = startGateway(0, { targets: { webhook: port }, keys });
    using client = await Deno.connect({
      hostname: "127.0.0.1",
      port: gateway.port,
    });
    async function ask(method: string) {
      await client.write(
        encodeLatin1(`${method} ${WEBHOOK} HTTP/1.1\r\nHost: x\r\n\r\n`),
      );
      const space = new Uint8Array(65_536);
      const length = await client.read(space);
      return decodeLatin1(space.subarray(0, length ?? 0));
    }
    try {
      for (let round = 1; round <= 3; round++) {
        assertStringIncludes(await ask("HEAD"), " 200 ");
        if (when === "at once") {
          await waitUntil(() => closed === round, { timeoutMs: HANG_LIMIT_MS });
        }
        const answer = await ask("GET");
        assert(/ 200 .*body$/s.test(answer), answer || "the gateway closed");
      }
    } finally {
      await gateway.close();
      listener.close();
      await serving;
    }
  });
}

Deno.test("gateway closes after HEAD if the client asked for that", async () => {
  await withRawService("HTTP/1.1 200 OK\r\n\r\n", async (port) => {
    const answer = await exchangeBytes(
      port,
      `HEAD ${WEBHOOK} HTTP/1.1\r\nConnection: close\r\n\r\n`,
    );
    assertEquals(answer, "HTTP/1.1 200 OK\r\n\r\n");
  });
});

/** Longer than `leave` waits for the rest of an answer. */
const LEFT_BY_THEN_MS = 1_800;

Deno.test("the gateway leaves a service only when nobody waits for it, and cuts no connection", async () => {
  const { promise: slow, resolve: answer } = Promise.withResolvers<void>();
  const { promise: isAsked, resolve: ask } = Promise.withResolvers<void>();
  const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const old = Deno.serve(options, async () => {
    ask();
    await slow;
    return new Response("old");
  });
  const next = Deno.serve(options, () => new Response("next"));
  let webhook = old.addr.port;
  const targets = {
    get webhook() {
      return webhook;
    },
  };
  const gateway = startGateway(0, { targets, keys });
  const { port } = gateway;
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  async function get() {
    await connection.write(
      encodeLatin1(`GET ${WEBHOOK} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`),
    );
    const space = new Uint8Array(65_536);
    const length = await connection.read(space);
    return decodeLatin1(space.subarray(0, length ?? 0)).split("\r\n").at(-1);
  }
  try {
    const waiting = get();
    await isAsked;
    webhook = next.addr.port;
    let isLeft = false;
    const left = gateway.leave(old.addr.port).then(() => isLeft = true);
    const other = await fetch(`http://127.0.0.1:${port}${WEBHOOK}`);
    assertEquals(await other.text(), "next");
    await new Promise((resolve) => setTimeout(resolve, LEFT_BY_THEN_MS));
    assertEquals(isLeft, false, "a client still waits");
    answer();
    assertEquals(await waiting, "old");
    await left;
    await old.shutdown();
    assertEquals(await get(), "next");
  } finally {
    answer();
    await gateway.close();
    await old.shutdown();
    await next.shutdown();
  }
});
