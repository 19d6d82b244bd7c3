import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type {
  Attempt,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import {
  type AddressOf,
  emailChannel,
} from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
import { NOT_STATED, STATED } from "../../support/payment.ts";

const API_KEY = "re_unit_SECRET";

const NOTIFICATION: Notification = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "a",
  event_id: "evt_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  invoice_id: "in_1",
  ...NOT_STATED,
  created_at: "2026-11-21T06:24:03.113987+00:00",
};

interface Sent {
  readonly path: string;
  readonly headers: Headers;
  readonly mail: Record<string, string>;
}

/** One attempt through the package, against an API that answers so. */
async function attempt(
  answer: () => Response,
  { addressOf = known, notification = NOTIFICATION }: {
    addressOf?: AddressOf;
    notification?: Notification;
  } = {},
): Promise<{ attempt: Attempt; sent: Sent[] }> {
  const sent: Sent[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      const mail = await request.json();
      sent.push({ path: pathname, headers: request.headers, mail });
      return answer();
    },
  );
  const before = Deno.env.get("RESEND_BASE_URL");
  // Where the package itself looks for it.
  Deno.env.set("RESEND_BASE_URL", `http://127.0.0.1:${server.addr.port}`);
  try {
    const channel = emailChannel({
      apiKey: API_KEY,
      from: "Billing <billing@example.com>",
      perSecond: 2,
      addressOf,
      clock: () => Date.parse("2026-11-21T06:24:00Z"),
    });
    return { attempt: await channel.send(notification), sent };
  } finally {
    if (before === undefined) Deno.env.delete("RESEND_BASE_URL");
    else Deno.env.set("RESEND_BASE_URL", before);
    await server.shutdown();
  }
}

function known(): Promise<string | null> {
  return Promise.resolve("owner@example.com");
}

function accepted(): Response {
  return Response.json({ id: "mail_1" });
}

/** An error in the form that Resend documents. */
function refusal(
  statusCode: number,
  name: string,
  headers: Record<string, string> = {},
): () => Response {
  return () =>
    Response.json({ statusCode, name, message: `This is ${name}` }, {
      status: statusCode,
      headers,
    });
}

Deno.test("emailChannel() mails the account, once a notification", async () => {
  const asked: string[] = [];
  const { attempt: made, sent: [request, ...more] } = await attempt(accepted, {
    addressOf: (account) => {
      asked.push(account);
      return known();
    },
  });
  assertEquals(made, { result: "sent" });
  assertEquals([asked, more], [["acc_1"], []]);
  assert(request !== undefined);
  assertEquals(request.path, "/emails");
  assertEquals(request.headers.get("authorization"), `Bearer ${API_KEY}`);
  assertEquals(request.headers.get("idempotency-key"), NOTIFICATION.id);
  const { from, to, subject, text } = request.mail;
  assertEquals([from, to, subject], [
    "Billing <billing@example.com>",
    "owner@example.com",
    "Your payment failed",
  ]);
  assertStringIncludes(text ?? "", "Invoice: in_1, Subscription: sub_1");
});

Deno.test("emailChannel() sends plain text and HTML", async () => {
  const { sent: [request] } = await attempt(accepted, {
    notification: { ...NOTIFICATION, ...STATED },
  });
  const { subject, text, html } = request?.mail ?? {};
  assertEquals(subject, "Your payment of €19.00 failed");
  assertStringIncludes(text ?? "", STATED.hosted_invoice_url);
  assertStringIncludes(
    html ?? "",
    'href="https://pay.example.com/in_1?a=1&amp;b=2"',
  );
});

Deno.test("emailChannel() sends the same mail at every attempt, as Resend asks", async () => {
  const notification = { ...NOTIFICATION, ...STATED };
  const [first, second] = [
    await attempt(accepted, { notification }),
    await attempt(accepted, { notification }),
  ];
  assertEquals(first.sent[0]?.mail, second.sent[0]?.mail);
});

Deno.test("emailChannel() finds an account without an address undeliverable", async () => {
  const { attempt: made, sent } = await attempt(accepted, {
    addressOf: () => Promise.resolve(null),
  });
  assert(made.result === "undeliverable");
  assertStringIncludes(made.error, "account_email returns no address");
  assertEquals(sent, []);
});

Deno.test("emailChannel() tries again if the address cannot be asked for", async () => {
  const { attempt: made, sent } = await attempt(accepted, {
    addressOf: () => Promise.reject(new Error("account_email failed: why")),
  });
  assertEquals(made, { result: "failed", error: "account_email failed: why" });
  assertEquals(sent, []);
});

for (
  const [code, name] of [
    [400, "validation_error"],
    [401, "missing_api_key"],
    [403, "invalid_api_key"],
    [422, "invalid_from_address"],
    [500, "internal_server_error"],
  ] as const
) {
  Deno.test(`emailChannel() takes ${name} for a failed attempt`, async () => {
    const { attempt: made } = await attempt(refusal(code, name));
    assertEquals(made, {
      result: "failed",
      error: `Resend: ${name}: This is ${name}`,
      retryAfterSeconds: undefined,
    });
  });
}

for (
  const [header, seconds] of [
    ["90", 90],
    ["Sat, 21 Nov 2026 06:34:00 GMT", 600],
  ] as const
) {
  Deno.test(`emailChannel() passes on Retry-After: ${header}`, async () => {
    const { attempt: made } = await attempt(
      refusal(429, "rate_limit_exceeded", { "retry-after": header }),
    );
    assertEquals(made, {
      result: "limited",
      error: "Resend: rate_limit_exceeded: This is rate_limit_exceeded",
      retryAfterSeconds: seconds,
    });
  });
}

// Resend answers 429 for its quotas as well.
for (const name of ["daily_quota_exceeded", "monthly_quota_exceeded"]) {
  Deno.test(`emailChannel() takes ${name} for a limit`, async () => {
    const { attempt: made } = await attempt(refusal(429, name));
    assertEquals(made, {
      result: "limited",
      error: `Resend: ${name}: This is ${name}`,
      retryAfterSeconds: undefined,
    });
  });
}

for (const body of ["null", '"no"', "[]", "{}", "17", "<html>", ""]) {
  Deno.test(`emailChannel() takes 502 with the body '${body}' for a failed attempt`, async () => {
    const { attempt: made } = await attempt(() =>
      new Response(body, { status: 502 })
    );
    assert(made.result === "failed", made.result);
    assert(!made.error.includes("undefined"), made.error);
  });
}

for (const body of ["<html>", ""]) {
  Deno.test(`emailChannel() takes 429 with the body '${body}' for a limit`, async () => {
    const { attempt: made } = await attempt(() =>
      new Response(body, { status: 429, headers: { "retry-after": "3" } })
    );
    assert(made.result === "limited", made.result);
    assertEquals(made.retryAfterSeconds, 3);
  });
}

for (const body of ["<html>", "", "null"]) {
  Deno.test(`emailChannel() takes 200 with the body '${body}' for a failed attempt`, async () => {
    const { attempt: made } = await attempt(() => new Response(body));
    assertEquals(made.result, "failed");
  });
}

Deno.test("emailChannel() tries again if nothing answers", async () => {
  const before = Deno.env.get("RESEND_BASE_URL");
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  Deno.env.set("RESEND_BASE_URL", `http://127.0.0.1:${port}`);
  try {
    const channel = emailChannel({
      apiKey: API_KEY,
      from: "billing@example.com",
      perSecond: 2,
      addressOf: known,
      clock: Date.now,
    });
    const made = await channel.send(NOTIFICATION);
    assert(made.result === "failed");
    assert(!made.error.includes(API_KEY), made.error);
  } finally {
    if (before === undefined) Deno.env.delete("RESEND_BASE_URL");
    else Deno.env.set("RESEND_BASE_URL", before);
  }
});
