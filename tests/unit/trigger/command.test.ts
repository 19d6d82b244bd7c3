import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import Stripe from "stripe";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { publishRunningStack } from "../../../scripts/common/running_stack.ts";
import * as build from "../../../scripts/trigger/build_event.ts";

const SCRIPT = new URL("../../../scripts/trigger.ts", import.meta.url).href;
const SECRET = "whsec_of_this_test";
const CREATED = "customer.subscription.created";

async function trigger(args: string[], data = "/nowhere") {
  const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", "--no-check", SCRIPT, ...args],
    // Set, so that supabase/functions/.env does not matter.
    env: {
      PROVIDER_A_SIGNING_SECRET: SECRET,
      PROVIDER_A_SIGNATURE_SCHEME: "stripe",
      PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
      BILLING_STACK_DATA: data,
    },
  }).output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

function serve(answer: (request: Request) => Response | Promise<Response>) {
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const server = Deno.serve(options, answer);
  const origin = `http://127.0.0.1:${server.addr.port}`;
  const close = () => server.shutdown();
  return { origin, url: `${origin}/hook`, [Symbol.asyncDispose]: close };
}

Deno.test("trigger sends what verifies, and prints the answer alone", async () => {
  const events: Stripe.Event[] = [];
  await using receiver = serve(async (request) => {
    const signature = request.headers.get("stripe-signature") ?? "";
    const { webhooks } = Stripe;
    const body = await request.text();
    events.push(await webhooks.constructEventAsync(body, signature, SECRET));
    return new Response("\x1b[2J\u202e\r\nnext");
  });
  const args = [CREATED, "--url", receiver.url];
  const { out: printed } = await trigger([...args, "--print"]);
  assertEquals(JSON.parse(printed).data.object.id, "sub_local_a");
  const { code, out, err } = await trigger(args);
  // A terminal executes control characters.
  assertEquals([code, out], [0, "200 \\u001b[2J\\u202e\nnext\n"]);
  assertEquals(events.map(({ type }) => type), [CREATED]);
  const { id, created } = events[0]!;
  assert(Math.abs(Date.now() / 1000 - created) < 60);
  assertStringIncludes(err, `${CREATED} ${id} about\nsub_local_a, signed as`);
});

Deno.test("trigger finds the local stack, and prints the row on standard error", async () => {
  const data = await Deno.makeTempDir();
  let requests = 0;
  await using stack = serve(({ method, url }) => {
    if (method === "POST") return new Response("OK");
    const isRecord = url.includes("billing_subscriptions");
    const row = isRecord ? { id: "a\u001bb" } : { outcome: "applied" };
    return Response.json(requests++ === 0 ? [] : [row]);
  });
  const urls = { apiUrl: stack.origin, dbUrl: "postgresql://127.0.0.1:5/x" };
  await using _running = await publishRunningStack(data, urls);
  const { out, err } = await trigger(["customer.subscription.updated"], data);
  assertEquals(out, "200 OK\n");
  const row = "applied. The row in billing.subscriptions:\n  id  a\\u001bb\n";
  assertStringIncludes(err, `${row}Next: `);
  await Deno.remove(data, { recursive: true });
});

Deno.test("trigger sends a file as it is, follows no redirect, and exits with 1", async () => {
  const file = await Deno.makeTempFile();
  const bytes = Uint8Array.of(0x7b, 0xff, 0x00, 0x7d);
  await Deno.writeFile(file, bytes);
  const received: unknown[] = [];
  await using receiver = serve(async (request) => {
    received.push(new URL(request.url).pathname, await request.bytes());
    return new Response(null, { status: 302, headers: { location: "/other" } });
  });
  const result = await trigger(["--payload", file, "--url", receiver.url]);
  assertEquals([result.code, result.out], [1, "302\n"]);
  assertEquals(received, ["/hook", bytes]);
  await Deno.remove(file);
});

Deno.test("trigger says what to do if nothing listens", async () => {
  const { url, ...server } = serve(() => new Response());
  await server[Symbol.asyncDispose]();
  const { code, out, err } = await trigger([CREATED, "--url", url]);
  assertEquals([code, out], [1, ""]);
  assertStringIncludes(err, `Cannot reach ${url}: is the local stack running?`);
});

Deno.test("buildEvent() fills in what the command line leaves out", () => {
  const type = "invoice.payment_failed";
  const event = build.buildEvent({ type, event: "evt_1" }, "b");
  const ids = JSON.stringify(event).match(/\b(?:evt|sub|acc)_\w+/g);
  assertEquals(new Set(ids), new Set(["evt_1", "sub_local_b", "acc_local"]));
});

Deno.test("waitBeforeMs() makes a creation wait for the next second", () => {
  const waits = [5_000, 5_001, 5_999].map((ms) =>
    build.waitBeforeMs(CREATED, ms)
  );
  assertEquals(waits, [1_000, 999, 1]);
  assertEquals(build.waitBeforeMs("customer.subscription.deleted", 5_001), 0);
});
