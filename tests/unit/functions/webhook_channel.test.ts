import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type {
  Attempt,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { webhookChannel } from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import { NOT_STATED, STATED } from "../../support/payment.ts";

const URL_TEXT = "https://hooks.test/billing?token=URL-SECRET";
const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

const NOTIFICATION: Notification = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  lease_id: "11ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "b",
  event_id: "evt_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  invoice_id: "in_1",
  ...NOT_STATED,
  created_at: "2026-11-21T06:24:03.113987+00:00",
};

type Answer = (signal: AbortSignal) => Response | Promise<Response>;

/** One attempt that is answered so, and the request that it made. */
async function attempt(
  answer: Answer,
  {
    url = URL_TEXT,
    notification = NOTIFICATION,
    timeLimitMs = 5_000,
    clock = Date.now,
  } = {},
): Promise<{ attempt: Attempt; requests: Request[] }> {
  const requests: Request[] = [];
  const channel = webhookChannel(url, {
    secret: SECRET,
    fetch: async (input, init) => {
      assert(init?.signal, "The attempt has no time limit");
      requests.push(new Request(input, { ...init, signal: null }));
      return await answer(init.signal);
    },
    clock,
    timeLimitMs,
  });
  return { attempt: await channel.send(notification), requests };
}

function status(status: number, headers: Record<string, string> = {}): Answer {
  return () => new Response(null, { status, headers });
}

function throwing(error: Error): Answer {
  return () => {
    throw error;
  };
}

Deno.test("webhookChannel() posts a message that the package verifies", async () => {
  const { attempt: { result }, requests } = await attempt(status(200));
  assertEquals(result, "sent");
  assertEquals(requests.length, 1);
  const [request] = requests;
  assert(request !== undefined);
  assertEquals([request.method, request.url], ["POST", URL_TEXT]);
  assertEquals(request.redirect, "manual");
  assertEquals(request.headers.get("content-type"), "application/json");
  assertEquals(request.headers.get("webhook-id"), NOTIFICATION.id);
  const message = new Webhook(SECRET).verify(
    await request.text(),
    Object.fromEntries(request.headers),
  );
  assertEquals(message, {
    type: "billing.payment_failed",
    timestamp: "2026-11-21T06:24:03.113Z",
    data: {
      account_id: "acc_1",
      subscription_id: "sub_1",
      provider: "b",
      event_id: "evt_1",
      invoice_id: "in_1",
    },
  });
});

Deno.test("webhookChannel() leaves out an invoice that is not known", async () => {
  const { requests: [request] } = await attempt(status(200), {
    notification: { ...NOTIFICATION, invoice_id: null },
  });
  assertEquals((await request?.json()).data, {
    account_id: "acc_1",
    subscription_id: "sub_1",
    provider: "b",
    event_id: "evt_1",
  });
});

for (
  const [what, notification, data] of [
    ["all that the event states", STATED, {
      ...STATED,
      next_payment_attempt: "2026-05-03T23:30:00.000Z",
    }],
    ["that there is no next attempt", {
      ...NOT_STATED,
      attempt_count: 8,
    }, { attempt_count: 8, next_payment_attempt: null }],
    ["a next attempt whose number is not known", {
      ...NOT_STATED,
      next_payment_attempt: "2026-05-03T23:30:00+00:00",
    }, { next_payment_attempt: "2026-05-03T23:30:00.000Z" }],
    ["an amount of nothing", { ...NOT_STATED, amount_due: 0 }, {
      amount_due: 0,
    }],
    ["that no attempt was made", { ...NOT_STATED, attempt_count: 0 }, {
      attempt_count: 0,
      next_payment_attempt: null,
    }],
  ] as const
) {
  Deno.test(`webhookChannel() says ${what}`, async () => {
    const { requests: [request] } = await attempt(status(200), {
      notification: { ...NOTIFICATION, ...notification },
    });
    assertEquals((await request?.json()).data, {
      account_id: "acc_1",
      subscription_id: "sub_1",
      provider: "b",
      event_id: "evt_1",
      invoice_id: "in_1",
      ...data,
    });
  });
}

Deno.test("webhookChannel() signs each attempt at its own time, with the same id", async () => {
  const times = [1_795_242_243_000, 1_795_242_999_900];
  const signed: (string | null)[][] = [];
  const channel = webhookChannel(URL_TEXT, {
    secret: SECRET,
    fetch: (_url, init) => {
      const headers = new Headers(init?.headers);
      signed.push(
        ["webhook-id", "webhook-timestamp", "webhook-signature"]
          .map((name) => headers.get(name)),
      );
      return Promise.resolve(new Response(null, { status: 503 }));
    },
    clock: () => times[signed.length] ?? times[0]!,
  });
  await channel.send(NOTIFICATION);
  await channel.send(NOTIFICATION);
  const { id } = NOTIFICATION;
  assertEquals(signed.map(([id, time]) => [id, time]), [
    [id, "1795242243"],
    [id, "1795242999"],
  ]);
  assert(signed[0]?.[2] !== signed[1]?.[2]);
});

for (const code of [200, 201, 202, 204, 299]) {
  Deno.test(`webhookChannel() takes ${code} for delivered`, async () => {
    assertEquals((await attempt(status(code))).attempt, { result: "sent" });
  });
}

Deno.test("webhookChannel() gives up at 410", async () => {
  assertEquals((await attempt(status(410))).attempt, {
    result: "dead",
    error: "the receiver answered 410 Gone",
  });
});

for (const code of [400, 401, 404, 408, 409, 428, 430, 500, 503, 504]) {
  Deno.test(`webhookChannel() takes ${code} for a failed attempt`, async () => {
    assertEquals((await attempt(status(code))).attempt, {
      result: "failed",
      error: `the receiver answered ${code}`,
      retryAfterSeconds: undefined,
    });
  });
}

Deno.test("webhookChannel() passes on what Retry-After asks for", async () => {
  const clock = () => Date.parse("2026-11-21T06:23:00Z");
  for (const header of ["120", "Sat, 21 Nov 2026 06:25:00 GMT"]) {
    const answer = status(503, { "retry-after": header });
    assertEquals((await attempt(answer, { clock })).attempt, {
      result: "failed",
      error: "the receiver answered 503",
      retryAfterSeconds: 120,
    });
  }
});

for (
  const [header, retryAfterSeconds] of [["120", 120], [
    null,
    undefined,
  ]] as const
) {
  Deno.test(`webhookChannel() takes 429 with Retry-After ${header} for a limit`, async () => {
    const answer = status(
      429,
      header === null ? {} : { "retry-after": header },
    );
    assertEquals((await attempt(answer)).attempt, {
      result: "limited",
      error: "the receiver answered 429",
      retryAfterSeconds,
    });
  });
}

Deno.test("webhookChannel() names the host alone as its destination", () => {
  const url = "https://hooks.test:8443/URL-SECRET?token=URL-SECRET";
  const { destination, perSecond } = webhookChannel(url, {
    secret: SECRET,
    fetch,
    clock: Date.now,
  });
  assertEquals([destination, perSecond], ["hooks.test:8443", undefined]);
});

Deno.test("webhookChannel() says that redirects are not followed", async () => {
  const answer = status(308, { location: "https://elsewhere.test/" });
  const { attempt: { result, ...rest }, requests } = await attempt(answer);
  assertEquals(result, "failed");
  assertEquals(
    "error" in rest && rest.error,
    "the receiver answered 308, and redirects are not followed: set NOTIFICATION_URL to the final URL",
  );
  assertEquals(requests.length, 1);
});

Deno.test("webhookChannel() gives up on an attempt that takes too long", async () => {
  const { attempt: made } = await attempt(
    (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
    { timeLimitMs: 20 },
  );
  assertEquals(made, { result: "failed", error: "no answer within 20 ms" });
});

Deno.test("webhookChannel() does not wait for a body", async () => {
  let canceled = false;
  const body = new ReadableStream({ cancel: () => void (canceled = true) });
  const { attempt: made } = await attempt(() => new Response(body));
  assertEquals([made.result, canceled], ["sent", true]);
});

Deno.test("webhookChannel() says why no answer came", async () => {
  const made = (error: Error) =>
    attempt(throwing(error)).then(({ attempt }) => attempt);
  assertEquals(await made(new TypeError("connection refused")), {
    result: "failed",
    error: "connection refused",
  });
  const cause = new Error("connection refused");
  assertEquals(await made(new TypeError("fetch failed", { cause })), {
    result: "failed",
    error: "fetch failed: connection refused",
  });
});

// As the runtimes put it; they write the URL in its normal form.
for (
  const [url, normal] of [
    [URL_TEXT, URL_TEXT],
    [
      "https://hooks.test?token=URL-SECRET",
      "https://hooks.test/?token=URL-SECRET",
    ],
    ["HTTPS://Hooks.Test:443/URL-SECRET", "https://hooks.test/URL-SECRET"],
    [
      "https://hooks.test/a b?URL-SECRET",
      "https://hooks.test/a%20b?URL-SECRET",
    ],
    [
      "https://hooks.test/(a):b?(URL-SECRET)",
      "https://hooks.test/(a):b?(URL-SECRET)",
    ],
    ["https://hooks.test/URL-SECRET#part", "https://hooks.test/URL-SECRET"],
  ] as const
) {
  Deno.test(`webhookChannel() keeps ${url} out of its errors`, async () => {
    const messages = [
      `error sending request for url (${normal}): client error (Connect)`,
      `error sending request from 127.0.0.1:5 for ${normal} (127.0.0.1:6): client error (SendRequest)`,
    ];
    for (const message of messages) {
      const errors = [
        new TypeError(message),
        new TypeError("fetch failed", { cause: new Error(message) }),
      ];
      for (const error of errors) {
        const { attempt: made } = await attempt(throwing(error), { url });
        assert(made.result === "failed");
        assert(!/URL-SECRET|hooks\.test/.test(made.error), made.error);
        assert(/NOTIFICATION_URL.*client error/.test(made.error), made.error);
      }
    }
  });
}

Deno.test("webhookChannel() refuses a secret that is no base64", () => {
  assertThrows(() =>
    webhookChannel(URL_TEXT, { secret: "whsec_?", fetch, clock: Date.now })
  );
});
