import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { drainBody } from "../../../supabase/functions/billing-webhook/read_body.ts";
import {
  type BodyLimits,
  readBody,
} from "../../../supabase/functions/billing-webhook/read_body.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

const LIMITS: BodyLimits = { maxBytes: 16, timeLimitMs: 5_000 };

/** A sender of chunks, and what became of it. */
interface Sender {
  readonly stream: ReadableStream<Uint8Array>;
  sentBytes: number;
  isCanceled: boolean;
}

/** Sends a chunk whenever one is asked for; `undefined` for the end. */
function sender(
  next: () =>
    | Uint8Array
    | undefined
    | Promise<Uint8Array | undefined>,
): Sender {
  const state: Sender = {
    stream: new ReadableStream({
      async pull(controller) {
        const chunk = await next();
        if (state.isCanceled) return;
        if (chunk === undefined) return controller.close();
        state.sentBytes += chunk.byteLength;
        controller.enqueue(chunk);
      },
      cancel() {
        state.isCanceled = true;
      },
    }, { highWaterMark: 0 }),
    sentBytes: 0,
    isCanceled: false,
  };
  return state;
}

function sendAll(chunks: readonly Uint8Array[]): Sender {
  const queue = [...chunks];
  return sender(() => queue.shift());
}

function post(body: BodyInit | null, headers: HeadersInit = {}): Request {
  return new Request("http://localhost/billing-webhook", {
    method: "POST",
    body,
    headers,
  });
}

async function codeOf(reading: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => reading, DeliveryError)).code;
}

Deno.test("readBody() returns the exact bytes, however they are split", async () => {
  const chunks = fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 9 });
  await fc.assert(fc.asyncProperty(chunks, async (parts) => {
    const bytes = parts.flatMap((part) => [...part]);
    for (const headers of [{}, { "content-length": `${bytes.length}` }]) {
      const sent = sendAll(parts.map((part) => part.slice()));
      const request = post(sent.stream, headers);
      const body = await readBody(request, { ...LIMITS, maxBytes: 81 });
      assertEquals([...body], bytes);
    }
  }));
});

Deno.test("readBody() takes the memory of a single chunk, and of no other", async () => {
  const whole = Uint8Array.from([1, 2, 3]);
  const body = await readBody(post(sendAll([whole]).stream), LIMITS);
  assertEquals([...body], [1, 2, 3]);
  assertEquals(whole.byteLength, 0, "the chunk keeps nothing");

  const memory = Uint8Array.from([1, 2, 3, 4]);
  const part = await readBody(
    post(sendAll([memory.subarray(1, 3)]).stream),
    LIMITS,
  );
  assertEquals([...part], [2, 3]);
  assertEquals([...memory], [1, 2, 3, 4], "others may use the rest");
});

Deno.test("readBody() returns no bytes for no body", async () => {
  assertEquals((await readBody(post(null), LIMITS)).byteLength, 0);
  assertEquals((await readBody(post(""), LIMITS)).byteLength, 0);
});

Deno.test("readBody() reads up to the limit and not a byte more", async () => {
  for (const cut of [1, 5, 16]) {
    const chunks = [new Uint8Array(cut), new Uint8Array(16 - cut)];
    const body = await readBody(post(sendAll(chunks).stream), LIMITS);
    assertEquals(body.byteLength, 16);
    const over = sendAll([...chunks, new Uint8Array(1)]);
    assertEquals(
      await codeOf(readBody(post(over.stream), LIMITS)),
      "body_too_large",
    );
  }
});

Deno.test("readBody() stops an endless body some way past the limit", async () => {
  using timers = useFakeTimers();
  const endless = sender(() => new Uint8Array(10));
  assertEquals(
    await codeOf(readBody(post(endless.stream), LIMITS)),
    "body_too_large",
  );
  await timers.pass(100);
  assert(endless.isCanceled, "The sender is not told to stop");
  // Twice it counts, then it throws eight times the limit away.
  assertEquals(endless.sentBytes, 20 + 130);
});

Deno.test("readBody() counts chunks that come beside a length", async () => {
  const endless = sender(() => new Uint8Array(10));
  const request = post(endless.stream, {
    "content-length": "5",
    "transfer-encoding": "chunked",
  });
  assertEquals(await codeOf(readBody(request, LIMITS)), "body_too_large");
  assertEquals(endless.sentBytes, 20 + 130);
});

for (const length of [undefined, "8", "65537"]) {
  Deno.test(`readBody() lets go of a body whose time is up, after the answer (${length} bytes)`, async () => {
    using timers = useFakeTimers();
    const silent = sender(() => new Promise(() => {}));
    const headers = length === undefined ? {} : { "content-length": length };
    const reading = codeOf(
      readBody(post(silent.stream, headers), {
        maxBytes: 1_000_000,
        timeLimitMs: 5_000,
      }),
    );
    await timers.pass(4_999);
    assert(timers.pending() > 0, "The time is up too early");
    await timers.pass(1);
    assertEquals(await reading, "body_too_slow");
    assert(!silent.isCanceled, "The answer would not close the connection");
    await timers.pass(100);
    assert(silent.isCanceled, "The sender is not told to stop");
  });
}

Deno.test("readBody() says that a body is too large, although the time is up before its end", async () => {
  using timers = useFakeTimers();
  let sent = 0;
  const slow = sender(() =>
    ++sent <= 2 ? new Uint8Array(10) : new Promise(() => {})
  );
  const reading = codeOf(readBody(post(slow.stream), {
    maxBytes: 16,
    timeLimitMs: 500,
  }));
  await settle();
  await settle();
  await timers.pass(1_000);
  assertEquals(await reading, "body_too_large");
});

Deno.test("readBody() reads nothing after the time is up", async () => {
  using timers = useFakeTimers();
  let send = (_: Uint8Array) => {};
  const slow = sender(() => new Promise((resolve) => send = resolve));
  const reading = codeOf(readBody(post(slow.stream), LIMITS));
  await settle();
  await timers.pass(5_000);
  assertEquals(await reading, "body_too_slow");
  send(new Uint8Array(4));
  await settle();
  send(new Uint8Array(4));
  await settle();
  assertEquals(slow.sentBytes, 4);
});

Deno.test("readBody() counts, whatever the header says", async () => {
  for (const length of ["1", "0", "-1", "rubbish", ""]) {
    const request = post(sendAll([new Uint8Array(17)]).stream, {
      "content-length": length,
    });
    assertEquals(await codeOf(readBody(request, LIMITS)), "body_too_large");
  }
});

Deno.test("readBody() reads a body that is too large to its end before it answers", async () => {
  for (const headers of [{}, { "content-length": "60" }]) {
    const large = sendAll([15, 15, 15, 15].map((n) => new Uint8Array(n)));
    const reading = readBody(post(large.stream, headers), LIMITS);
    assertEquals(await codeOf(reading), "body_too_large");
    assertEquals(large.sentBytes, 60);
  }
});

Deno.test("readBody() does not wait for the rest of a body that is too large", async () => {
  using timers = useFakeTimers();
  let sent = false;
  const hanging = sender(() => {
    if (sent) return new Promise(() => {});
    sent = true;
    return new Uint8Array(17);
  });
  const reading = codeOf(readBody(post(hanging.stream), LIMITS));
  await settle();
  await timers.pass(1_000);
  assertEquals(await reading, "body_too_large");
  assert(!hanging.isCanceled, "The answer would not close the connection");
  await timers.pass(100);
  assert(hanging.isCanceled, "The sender is not told to stop");
});

Deno.test("readBody() uses the header if there is one", async () => {
  const honest = sendAll([1, 2, 3, 4, 5].map(() => new Uint8Array(4)));
  const request = post(honest.stream, { "content-length": "17" });
  assertEquals(await codeOf(readBody(request, LIMITS)), "body_too_large");
  assertEquals(honest.sentBytes, 20);

  const exact = post(sendAll([new Uint8Array(16)]).stream, {
    "content-length": "16",
  });
  assertEquals((await readBody(exact, LIMITS)).byteLength, 16);

  const nothing = post(sendAll([]).stream, { "content-length": "17" });
  assertEquals(await codeOf(readBody(nothing, LIMITS)), "body_too_large");
});

Deno.test("readBody() limits the whole body, not each chunk", async () => {
  const trickle = sender(async () => {
    await new Promise((resolve) => setTimeout(resolve, 2));
    return new Uint8Array(1);
  });
  const reading = readBody(post(trickle.stream), {
    maxBytes: 1_000_000,
    timeLimitMs: 40,
  });
  assertEquals(await codeOf(reading), "body_too_slow");
  assert(trickle.sentBytes > 0, "Nothing was sent");
});

Deno.test({
  name: "readBody() leaves no timer behind",
  sanitizeOps: true,
  sanitizeResources: true,
  fn: async () => {
    const minutes = { ...LIMITS, timeLimitMs: 600_000 };
    await readBody(post("{}"), minutes);
    await codeOf(readBody(post(new Uint8Array(17)), minutes));
    const broken = sender(() => Promise.reject(new Error("reset")));
    await codeOf(readBody(post(broken.stream), minutes));
  },
});

for (const headers of [{}, { "content-length": "8" }]) {
  const kind = "content-length" in headers ? "told" : "unknown";
  Deno.test(`readBody() reports a sender that goes away (${kind} length)`, async () => {
    let sent = false;
    const broken = sender(() => {
      if (sent) throw new TypeError("connection reset by peer");
      sent = true;
      return new Uint8Array(4);
    });
    assertEquals(
      await codeOf(readBody(post(broken.stream, headers), LIMITS)),
      "body_incomplete",
    );
  });
}

Deno.test("readBody() is silent about a sender that goes away under a header over the limit", async () => {
  const broken = sender(() => Promise.reject(new Error("reset")));
  const request = post(broken.stream, { "content-length": "17" });
  assertEquals(await codeOf(readBody(request, LIMITS)), "body_too_large");
});

Deno.test("drainBody() reads many times the limit and stops", async () => {
  using timers = useFakeTimers();
  const endless = sender(() => new Uint8Array(4));
  await drainBody(post(endless.stream), { maxBytes: 16 });
  assertEquals(endless.sentBytes, 8 * 16);
  await timers.pass(100);
  assert(endless.isCanceled);
});

Deno.test("drainBody() reads a short body to its end", async () => {
  const short = sendAll([new Uint8Array(4), new Uint8Array(4)]);
  await drainBody(post(short.stream), { maxBytes: 16 });
  assertEquals(short.sentBytes, 8);
  await drainBody(post(null), { maxBytes: 16 });
});

Deno.test("drainBody() does not wait for a sender that hangs, and lets go of it after the answer", async () => {
  using timers = useFakeTimers();
  const silent = sender(() => new Promise(() => {}));
  const draining = drainBody(post(silent.stream), { maxBytes: 16 });
  await timers.pass(1_000);
  await draining;
  assert(!silent.isCanceled, "The answer would not close the connection");
  await timers.pass(100);
  assert(silent.isCanceled, "The sender is not told to stop");
});
