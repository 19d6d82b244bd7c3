import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import Stripe from "stripe";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { publishRunningStack } from "../../../scripts/common/running_stack.ts";
import {
  buildEvent,
  waitBeforeMs,
} from "../../../scripts/trigger/build_event.ts";

const SCRIPT = new URL("../../../scripts/trigger.ts", import.meta.url).href;
const SECRET = "whsec_of_this_test";
const CREATED = "customer.subscription.created";

async function trigger(args: string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", "--no-check", SCRIPT, ...args],
    // Set, so that supabase/functions/.env does not matter.
    env: {
      PROVIDER_A_SIGNING_SECRET: SECRET,
      PROVIDER_A_SIGNATURE_SCHEME: "stripe",
      PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
      BILLING_STACK_DATA: "/nowhere",
      ...env,
    },
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) =>
    new TextDecoder().decode(bytes)
  );
  return { code, out, err: err ?? "" };
}

function serve(answer: (request: Request) => Response | Promise<Response>) {
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    answer,
  );
  const origin = `http://127.0.0.1:${server.addr.port}`;
  return {
    origin,
    url: `${origin}/hook`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("trigger sends what verifies, and prints the answer alone", async () => {
  let event: Stripe.Event | undefined;
  await using receiver = serve(async (request) => {
    assertEquals(request.method, "POST");
    const signature = request.headers.get("stripe-signature") ?? "";
    const body = await request.text();
    event = await Stripe.webhooks.constructEventAsync(body, signature, SECRET);
    return new Response("\x1b[2J\u202e\r\nnext");
  });
  const { code, out, err } = await trigger([CREATED, "--url", receiver.url]);
  // A terminal executes control characters.
  assertEquals([code, out], [0, "200 \\u001b[2J\\u202e\nnext\n"]);
  assert(event !== undefined);
  assertEquals(event.type, CREATED);
  assert(Math.abs(Date.now() / 1000 - event.created) < 60);
  for (const part of [event.id, "sub_local_a", receiver.url]) {
    assertStringIncludes(err, part);
  }
});

Deno.test("trigger --print prints the event, and sends nothing", async () => {
  let requests = 0;
  await using receiver = serve(() => new Response(`${++requests}`));
  const { code, out, err } = await trigger([
    CREATED,
    "--print",
    "--url",
    receiver.url,
  ]);
  assertEquals([code, err, requests], [0, "", 0]);
  assertEquals(JSON.parse(out).data.object.id, "sub_local_a");
});

Deno.test("trigger finds the local stack, and prints the row on standard error", async () => {
  const folder = await Deno.makeTempDir();
  let requests = 0;
  await using stack = serve(({ method, url }) => {
    requests++;
    if (method === "POST") return new Response("OK");
    if (url.includes("billing_subscriptions")) {
      return Response.json([{ id: "a\u001bb" }]);
    }
    return Response.json(requests > 2 ? [{ outcome: "applied" }] : []);
  });
  await using _running = await publishRunningStack(folder, {
    apiUrl: stack.origin,
    dbUrl: "postgresql://127.0.0.1:5/postgres",
  });
  const { out, err } = await trigger(["customer.subscription.updated"], {
    BILLING_STACK_DATA: folder,
  });
  assertEquals(out, "200 OK\n");
  assertStringIncludes(
    err,
    "applied. The row in billing.subscriptions:\n  id  a\\u001bb\nNext: ",
  );
  await Deno.remove(folder, { recursive: true });
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
  const { code, out } = await trigger([
    "--payload",
    file,
    "--url",
    receiver.url,
  ]);
  assertEquals([code, out], [1, "302\n"]);
  assertEquals(received, ["/hook", bytes]);
  await Deno.remove(file);
});

Deno.test("trigger says what is wrong", async () => {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const url = `http://127.0.0.1:${listener.addr.port}/hook`;
  listener.close();
  const closed = await trigger([CREATED, "--url", url]);
  assertEquals([closed.code, closed.out], [1, ""]);
  assertStringIncludes(
    closed.err,
    `Cannot reach ${url}: is the local stack running? Start it with: deno task start`,
  );
  const unknown = await trigger(["invoice.paid"]);
  assertEquals([unknown.code, unknown.out], [2, ""]);
  assertMatch(unknown.err, /^Unknown event type .+ See --help\.\n$/);
});

Deno.test("buildEvent() fills in what the command line leaves out", () => {
  const event = buildEvent(
    { type: "invoice.payment_failed", event: "evt_1" },
    "b",
  );
  assertEquals(event.id, "evt_1");
  const text = JSON.stringify(event);
  for (
    const [pattern, all] of [[/\bsub_\w+/g, "sub_local_b"], [
      /\bacc_\w+/g,
      "acc_local",
    ]] as const
  ) {
    assertEquals(new Set(text.match(pattern)), new Set([all]));
  }
});

Deno.test("waitBeforeMs() makes a creation wait for the next second", () => {
  assertEquals([5_000, 5_001, 5_999].map((ms) => waitBeforeMs(CREATED, ms)), [
    1_000,
    999,
    1,
  ]);
  assertEquals(waitBeforeMs("customer.subscription.deleted", 5_001), 0);
});
