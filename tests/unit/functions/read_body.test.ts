import { assertEquals } from "@std/assert";
import { readBody } from "../../../supabase/functions/billing-webhook/read_body.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";
import { codeOf } from "./fixtures.ts";

const LIMITS = { maxBytes: 16, timeLimitMs: 5_000 };

type End = "ends" | "hangs" | "breaks" | "goes on";

/** A body of chunks of that many bytes, and what became of it. */
function sender(chunks: number[], then: End) {
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

Deno.test("readBody() returns the exact bytes, and takes the memory of a single chunk alone", async () => {
  for (const parts of [[], [[]], [[1, 2, 3]], [[1], [], [2, 3]], [[], [4]]]) {
    const bytes = parts.flat();
    for (const headers of [{}, { "content-length": `${bytes.length}` }]) {
      const chunks = parts.map((part) => Uint8Array.from(part));
      const request = post(ReadableStream.from(chunks), headers);
      const limits = { ...LIMITS, maxBytes: bytes.length };
      assertEquals([...await readBody(request, limits)], bytes);
    }
  }
  const [whole, part] = [Uint8Array.of(1, 2, 3), Uint8Array.of(1, 2, 3, 4)];
  for (const chunk of [whole, part.subarray(1, 3)]) {
    const bytes = [...chunk];
    const request = post(ReadableStream.from([chunk]));
    assertEquals([...await readBody(request, LIMITS)], bytes);
  }
  // Others may use the rest of the second.
  assertEquals([whole.byteLength, ...part], [0, 1, 2, 3, 4]);
  assertEquals((await readBody(post(null), LIMITS)).byteLength, 0);
});

const LARGE = "body_too_large";
const none = undefined;
type Row = [
  ...[chunks: number[], then: End, length: string | undefined],
  ...[code: string | undefined, sentBytes: number, afterMs?: number],
];
/** What is sent under which length, and what of it is read after how long. */
const BODIES: Row[] = [
  [[1, 15], "ends", none, none, 16],
  [[16], "ends", "16", none, 16],
  // A body that is too large is read up to eight times the limit.
  ...[none, "1", "0", "-1", "rubbish", "", "5"]
    .map((length): Row => [[1, 15, 1], "ends", length, LARGE, 17]),
  [[15, 15, 15], "ends", none, LARGE, 45],
  [[4, 4], "ends", "17", LARGE, 8],
  [[], "ends", "17", LARGE, 0],
  [[], "breaks", "17", LARGE, 0],
  [[20], "breaks", none, LARGE, 20],
  [[], "goes on", none, LARGE, 20 + 130],
  [[], "goes on", "17", LARGE, 130],
  [[8], "goes on", "17", LARGE, 128],
  // Nobody waits for a sender that hangs.
  [[17], "hangs", none, LARGE, 17, 1_000],
  [[], "hangs", "17", LARGE, 0, 1_000],
  ...[none, "8"].flatMap((length): Row[] => [
    [[4], "hangs", length, "body_too_slow", 4, 5_000],
    [[4], "breaks", length, "body_incomplete", 4],
  ]),
];
Deno.test("readBody() stops at the limits, and lets go of the rest after the reply", async () => {
  for (const [chunks, then, length, code, sentBytes, afterMs] of BODIES) {
    const name = `${chunks} ${then}, length ${length}`;
    using timers = useFakeTimers();
    const { stream, state } = sender(chunks, then);
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
    const isLetGo = then === "hangs" || then === "goes on";
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
