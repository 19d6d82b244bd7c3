import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { readBody } from "../../../supabase/functions/billing-webhook/read_body.ts";
import { readDelivery } from "../../../supabase/functions/billing-webhook/read_delivery.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";
import { codeOf } from "./fixtures.ts";

const LIMITS = { maxBytes: 16, timeLimitMs: 5_000 };

/** What a sender does next: chunks of that many bytes, and how they end. */
interface Sender {
  readonly chunks: number[];
  readonly then: "ends" | "hangs" | "breaks" | "goes on";
}

/** A body that is sent so, and what became of it. */
function sender({ chunks, then }: Sender) {
  const queue = [...chunks];
  const state = { sentBytes: 0, isCanceled: false };
  const stream = new ReadableStream({
    pull(controller) {
      const length = queue.shift() ?? (then === "goes on" ? 10 : undefined);
      if (length !== undefined) {
        state.sentBytes += length;
        return controller.enqueue(new Uint8Array(length));
      }
      if (then === "ends") return controller.close();
      if (then === "breaks") throw new TypeError("connection reset by peer");
      return new Promise(() => {});
    },
    cancel: () => void (state.isCanceled = true),
  }, { highWaterMark: 0 });
  return { stream, state };
}

function post(
  body: BodyInit | null,
  headers: HeadersInit = {},
  path = "/billing-webhook",
): Request {
  const url = `http://localhost:9999${path}`;
  return new Request(url, { method: "POST", body, headers });
}

Deno.test("readBody() returns the exact bytes, however they are split", async () => {
  const chunks = fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 9 });
  await fc.assert(fc.asyncProperty(chunks, async (parts) => {
    const bytes = parts.flatMap((part) => [...part]);
    for (const headers of [{}, { "content-length": `${bytes.length}` }]) {
      const stream = ReadableStream.from(parts.map((part) => part.slice()));
      const limits = { ...LIMITS, maxBytes: bytes.length };
      const body = await readBody(post(stream, headers), limits);
      assertEquals([...body], bytes);
    }
  }));
  assertEquals((await readBody(post(null), LIMITS)).byteLength, 0);
});

Deno.test("readBody() takes the memory of a single chunk, and of no other", async () => {
  const read = (chunk: Uint8Array) =>
    readBody(post(ReadableStream.from([chunk])), LIMITS);
  const whole = Uint8Array.from([1, 2, 3]);
  assertEquals([...await read(whole)], [1, 2, 3]);
  assertEquals(whole.byteLength, 0, "the chunk keeps nothing");
  const memory = Uint8Array.from([1, 2, 3, 4]);
  assertEquals([...await read(memory.subarray(1, 3))], [2, 3]);
  assertEquals([...memory], [1, 2, 3, 4], "others may use the rest");
});

/** What is sent under which length, and what of it is read after how long. */
const BODIES: [
  sender: Sender,
  length: string | undefined,
  expected: { code?: string; sentBytes: number; afterMs?: number },
][] = [
  [{ chunks: [1, 15], then: "ends" }, undefined, { sentBytes: 16 }],
  [{ chunks: [16], then: "ends" }, "16", { sentBytes: 16 }],
  // A body that is too large is read up to eight times the limit.
  ...[undefined, "1", "0", "-1", "rubbish", "", "5"].map((
    length,
  ): (typeof BODIES)[number] => [
    { chunks: [1, 15, 1], then: "ends" },
    length,
    { code: "body_too_large", sentBytes: 17 },
  ]),
  [{ chunks: [15, 15, 15], then: "ends" }, undefined, {
    code: "body_too_large",
    sentBytes: 45,
  }],
  [{ chunks: [4, 4], then: "ends" }, "17", {
    code: "body_too_large",
    sentBytes: 8,
  }],
  [{ chunks: [], then: "ends" }, "17", {
    code: "body_too_large",
    sentBytes: 0,
  }],
  [{ chunks: [], then: "breaks" }, "17", {
    code: "body_too_large",
    sentBytes: 0,
  }],
  [{ chunks: [20], then: "breaks" }, undefined, {
    code: "body_too_large",
    sentBytes: 20,
  }],
  [{ chunks: [], then: "goes on" }, undefined, {
    code: "body_too_large",
    sentBytes: 20 + 130,
  }],
  [{ chunks: [], then: "goes on" }, "17", {
    code: "body_too_large",
    sentBytes: 130,
  }],
  [{ chunks: [8], then: "goes on" }, "17", {
    code: "body_too_large",
    sentBytes: 128,
  }],
  // Nobody waits for a sender that hangs.
  [{ chunks: [17], then: "hangs" }, undefined, {
    code: "body_too_large",
    sentBytes: 17,
    afterMs: 1_000,
  }],
  [{ chunks: [], then: "hangs" }, "17", {
    code: "body_too_large",
    sentBytes: 0,
    afterMs: 1_000,
  }],
  ...[undefined, "8"].flatMap((length): (typeof BODIES)[number][] => [
    [{ chunks: [4], then: "hangs" }, length, {
      code: "body_too_slow",
      sentBytes: 4,
      afterMs: 5_000,
    }],
    [{ chunks: [4], then: "breaks" }, length, {
      code: "body_incomplete",
      sentBytes: 4,
    }],
  ]),
];
Deno.test("readBody() stops at the limits, and lets go of the rest after the reply", async () => {
  for (const [what, length, { code, sentBytes, afterMs }] of BODIES) {
    const name = `${JSON.stringify(what)}, length ${length}`;
    using timers = useFakeTimers();
    const { stream, state } = sender(what);
    const headers = length === undefined ? {} : { "content-length": length };
    const reading = readBody(post(stream, headers), LIMITS);
    let isOver = false;
    const result = (code === undefined ? reading : codeOf(reading))
      .finally(() => isOver = true);
    for (let i = 0; i < 9; i++) await settle();
    if (afterMs !== undefined) {
      await timers.pass(afterMs - 1);
      assertEquals(isOver, false, name);
      await timers.pass(1);
    }
    const read = await result;
    assertEquals(read, code ?? new Uint8Array(sentBytes), name);
    assertEquals(state.sentBytes, sentBytes, name);
    // If canceled before the reply, Deno would keep the connection.
    const isLetGo = what.then === "hangs" || what.then === "goes on";
    assertEquals([state.isCanceled, timers.pending()], [false, +isLetGo], name);
    await timers.pass(99);
    assertEquals(state.isCanceled, false, name);
    await timers.pass(1);
    assertEquals(state.isCanceled, isLetGo, name);
  }
});

Deno.test("readBody() limits the time of the whole body, not of each chunk", async () => {
  using timers = useFakeTimers();
  const trickle = new ReadableStream({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      controller.enqueue(new Uint8Array(1));
    },
  }, { highWaterMark: 0 });
  const reading = codeOf(readBody(post(trickle), LIMITS));
  await settle();
  await timers.pass(5_000);
  assertEquals(await reading, "body_too_slow");
});

const PATHS = [
  "/functions/v1/billing-webhook",
  "/functions/v1/billing-webhook/api/billing/webhook",
  "/billing-webhook",
  "/billing-webhook/api/billing/webhook",
  "/api/billing/webhook",
];

Deno.test("readDelivery() serves its paths, with any query", async () => {
  const served = ["/elsewhere/../billing-webhook", ...PATHS];
  for (const path of served) {
    const url = `${path}?forceFunctionRegion=eu-central-1&path=/elsewhere#part`;
    for (const encoding of ["", "identity", "Identity"]) {
      const headers = { "content-encoding": encoding, "x-signature": "abc" };
      const read = await readDelivery(post("{ }", headers, url), LIMITS);
      const { body } = read;
      assertEquals(new TextDecoder().decode(body), "{ }", path);
      assertEquals(read.headers.get("x-signature"), "abc");
    }
  }
});

/** A request of which one member is as some server may make it. */
function odd(url: () => string): Request {
  return Object.defineProperty(post(null), "url", { get: url });
}

Deno.test("readDelivery() refuses what it does not serve, after it has read the body", async () => {
  const paths = [
    "/",
    "//billing-webhook",
    "/billing-webhook/",
    "/billing-webhook/../elsewhere",
    "/billing-webhook/api/billing",
    "/billing-webhook/billing-webhook",
    "/Billing-Webhook",
    "/%62illing-webhook",
    "/billing-webhook%2fapi/billing/webhook",
    "/billing-webhook;x",
    "/functions/v1/api/billing/webhook",
    "/functions/v2/billing-webhook",
    "/functions/v1/billing-worker",
  ];
  const methods = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"];
  const encodings = ["gzip", "br", "GZIP", "gzip, identity", "identity, gzip"];
  const cases: [code: string, request: Request][] = [
    ...paths.map((path): [string, Request] => [
      "path_unknown",
      post("{}", {}, path),
    ]),
    ...["*", "", "//", "http://[", "localhost:1"].map((
      url,
    ): [string, Request] => ["path_unknown", odd(() => url)]),
    [
      "path_unknown",
      odd(() => {
        throw new TypeError("Invalid URL: '*'");
      }),
    ],
    ["path_unknown", new Request("http://localhost/", { method: "GET" })],
    ...methods.map((method): [string, Request] => [
      "method_not_allowed",
      new Request("http://localhost/billing-webhook", { method }),
    ]),
    ...encodings.map((encoding): [string, Request] => [
      "encoding_unsupported",
      post("{}", { "content-encoding": encoding }),
    ]),
    ["body_too_large", post(new Uint8Array(17))],
  ];
  for (const [code, request] of cases) {
    const { method, headers } = request;
    const name = `${method} ${headers.get("content-encoding")}`;
    assertEquals(await codeOf(readDelivery(request, LIMITS)), code, name);
    assertEquals(request.bodyUsed, request.body !== null, name);
  }
  const { stream, state } = sender({ chunks: [], then: "goes on" });
  await codeOf(readDelivery(post(stream, {}, "/elsewhere"), LIMITS));
  assertEquals(state.sentBytes, 130, "more than eight times the limit");
});
