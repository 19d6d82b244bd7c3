import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import Stripe from "stripe";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { publishRunningStack } from "../../../scripts/common/running_stack.ts";

const SCRIPT = new URL("../../../scripts/trigger.ts", import.meta.url).href;
const SECRET = "whsec_of_this_test";

async function trigger(
  ...given: [Record<string, string>, ...string[]] | string[]
) {
  const [first, ...rest] = given;
  const [env, args] = typeof first === "object"
    ? [first, rest as string[]]
    : [{}, given as string[]];
  const output = await createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", SCRIPT, ...args],
    // Set, so that supabase/functions/.env does not matter.
    env: {
      PROVIDER_A_SIGNING_SECRET: SECRET,
      PROVIDER_A_SIGNATURE_SCHEME: "stripe",
      PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
      BILLING_STACK_DATA: "/nowhere",
      ...env,
    },
  }).output();
  const decoder = new TextDecoder();
  return {
    code: output.code,
    out: decoder.decode(output.stdout),
    err: decoder.decode(output.stderr),
  };
}

/** Runs `use` with the URL of a receiver that answers as told. */
async function withReceiver(
  answer: (request: Request) => Response | Promise<Response>,
  use: (url: string) => Promise<void>,
): Promise<void> {
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    answer,
  );
  try {
    await use(`http://127.0.0.1:${server.addr.port}/hook`);
  } finally {
    await server.shutdown();
  }
}

Deno.test("trigger sends what verifies, and prints the answer alone", async () => {
  const events: Stripe.Event[] = [];
  await withReceiver(async (request) => {
    events.push(
      await Stripe.webhooks.constructEventAsync(
        await request.text(),
        request.headers.get("stripe-signature") ?? "",
        SECRET,
      ),
    );
    assertEquals(request.method, "POST");
    return new Response("OK");
  }, async (url) => {
    const type = "customer.subscription.created";
    const { code, out, err } = await trigger(type, "--url", url);
    assertEquals([code, out], [0, "200 OK\n"]);
    const [event] = events;
    assert(event !== undefined);
    assertEquals(event.type, type);
    assert(Math.abs(Date.now() / 1000 - event.created) < 60);
    assertStringIncludes(err, event.id);
    assertStringIncludes(err, "sub_local_a");
    assertStringIncludes(err, url);
  });
});

Deno.test("trigger --print prints the event, and sends nothing", async () => {
  let requests = 0;
  await withReceiver(() => {
    requests++;
    return new Response("OK");
  }, async (url) => {
    const type = "customer.subscription.created";
    const { code, out, err } = await trigger(type, "--print", "--url", url);
    assertEquals([code, err], [0, ""]);
    const event = JSON.parse(out);
    assertEquals([event.type, event.data.object.id], [type, "sub_local_a"]);
    const file = await trigger("--payload", "x.json", "--print");
    assertEquals([file.code, file.out], [2, ""]);
  });
  assertEquals(requests, 0);
});

Deno.test("trigger prints what became of the event on standard error, where it may read that", async () => {
  const requests: string[] = [];
  await withReceiver((request) => {
    const { pathname } = new URL(request.url);
    requests.push(`${request.method} ${pathname}`);
    if (request.method === "POST") return new Response("OK");
    assertEquals(request.headers.get("apikey"), "sb_secret_x");
    return Response.json(
      pathname.endsWith("billing_subscriptions")
        ? [{ id: "sub_1", status: "ac\u001b[2Jtive", canceled_at: null }]
        : requests.length > 1
        ? [{ outcome: "applied" }]
        : [],
    );
  }, async (url) => {
    const { out, err } = await trigger(
      { SUPABASE_URL: new URL(url).origin, SUPABASE_SECRET_KEY: "sb_secret_x" },
      "customer.subscription.updated",
      "--url",
      url,
    );
    assertEquals(out, "200 OK\n");
    assertStringIncludes(
      err,
      "applied. The row in billing.subscriptions:\n  id      sub_1\n  status  ac\\u001b[2Jtive\n",
    );
  });
  assertEquals(requests, [
    "GET /rest/v1/billing_processed_events",
    "POST /hook",
    "GET /rest/v1/billing_processed_events",
    "GET /rest/v1/billing_subscriptions",
  ]);
});

Deno.test("trigger finds the local stack by itself", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await withReceiver((request) => {
      const { pathname } = new URL(request.url);
      return pathname === "/functions/v1/billing-webhook"
        ? new Response("OK")
        : Response.json([]);
    }, async (url) => {
      await using _running = await publishRunningStack(folder, {
        apiUrl: new URL(url).origin,
        dbUrl: "postgresql://127.0.0.1:5/postgres",
      });
      const { out, err } = await trigger(
        { BILLING_STACK_DATA: folder },
        "payment_intent.payment_failed",
      );
      assertEquals(out, "200 OK\n");
      assertStringIncludes(err, "ignored: nothing was stored.\n");
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("trigger sends a file as it is", async () => {
  const file = await Deno.makeTempFile();
  const bytes = Uint8Array.of(0x7b, 0xff, 0x00, 0x7d);
  const received: Uint8Array[] = [];
  try {
    await Deno.writeFile(file, bytes);
    await withReceiver(async (request) => {
      received.push(await request.bytes());
      return new Response("The body is not valid JSON", { status: 400 });
    }, async (url) => {
      const { code, out } = await trigger("--payload", file, "--url", url);
      assertEquals([code, out], [1, "400 The body is not valid JSON\n"]);
    });
  } finally {
    await Deno.remove(file);
  }
  assertEquals(received, [bytes]);
});

Deno.test("trigger prints what became of a file, where it may read that", async () => {
  const file = await Deno.makeTempFile();
  const queries: string[] = [];
  try {
    await Deno.writeTextFile(file, '{"id": "evt_of_file", "type": 1}');
    await withReceiver(({ method, url }) => {
      if (method === "POST") return new Response("bad", { status: 422 });
      queries.push(new URL(url).searchParams.get("event_id") ?? "");
      return Response.json(
        url.includes("failed_events") ? [{ error_code: "event_invalid" }] : [],
      );
    }, async (url) => {
      const { out, err } = await trigger(
        { SUPABASE_URL: new URL(url).origin, SUPABASE_SECRET_KEY: "x" },
        "--payload",
        file,
        "--url",
        url,
      );
      assertEquals(out, "422 bad\n");
      assertStringIncludes(
        err,
        "failed. The row in billing.failed_events:\n  error_code  event_invalid\n",
      );
    });
  } finally {
    await Deno.remove(file);
  }
  assertEquals(queries, ["eq.evt_of_file", "eq.evt_of_file"]);
});

Deno.test("trigger prints no control characters of an answer", async () => {
  const body = "\x1b[2J\x1b]0;x\x07\u009b31m\u202e\r\nnext";
  await withReceiver(() => new Response(body), async (url) => {
    const { out } = await trigger("invoice.payment_failed", "--url", url);
    assertEquals(
      out,
      "200 \\u001b[2J\\u001b]0;x\\u0007\\u009b31m\\u202e\nnext\n",
    );
  });
});

Deno.test("trigger follows no redirect", async () => {
  const requested: string[] = [];
  await withReceiver((request) => {
    requested.push(new URL(request.url).pathname);
    return new Response(null, { status: 302, headers: { location: "/other" } });
  }, async (url) => {
    const { code, out } = await trigger("invoice.payment_failed", "--url", url);
    assertEquals([code, out], [1, "302\n"]);
  });
  assertEquals(requested, ["/hook"]);
});

Deno.test("trigger says what to do if nothing listens", async () => {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const { port } = listener.addr;
  listener.close();
  const url = `http://127.0.0.1:${port}/hook`;
  const { code, out, err } = await trigger(
    "invoice.payment_failed",
    "--url",
    url,
  );
  assertEquals([code, out], [1, ""]);
  assertStringIncludes(
    err,
    `Cannot reach ${url}: is the local stack running? Start it with: deno task start`,
  );
});

Deno.test("trigger says what is wrong with a command line, in one line", async () => {
  const { code, out, err } = await trigger("invoice.paid");
  assertEquals([code, out], [2, ""]);
  assertMatch(
    err,
    /^Unknown event type "invoice\.paid"\. Choose one of .+ See --help\.\n$/,
  );
  const help = await trigger("--help");
  assertEquals([help.code, help.err], [0, ""]);
  assertStringIncludes(help.out, "Usage: deno task trigger <event type>");
});

Deno.test("trigger refuses a key with a line break, and does not repeat it", async () => {
  const { code, err } = await trigger(
    {
      SUPABASE_URL: "http://127.0.0.1:9",
      SUPABASE_SECRET_KEY: "sb_secret_one\nsb_secret_two",
    },
    "customer.subscription.updated",
    "--url",
    "http://127.0.0.1:9/hook",
  );
  assertEquals(code, 2);
  assertStringIncludes(err, "SUPABASE_SECRET_KEY contains a line break");
  assertEquals(err.includes("sb_secret_"), false);
});
