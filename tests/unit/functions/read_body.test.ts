import { assertEquals } from "@std/assert";
import { readBody } from "../../../supabase/functions/billing-webhook/read_body.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";
import { codeOf } from "./fixtures.ts";

const LIMITS = { maxBytes: 16, timeLimitMs: 5_000 };

type End = "ends" | "hangs" | "breaks" | "goes on";

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

const post = (body: BodyInit | null, headers: HeadersInit = {}) =>
  new Request("http://localhost:9999/", { method: "POST", body, headers });

async function read(...chunks: Uint8Array<ArrayBuffer>[]) {
  const body = await readBody(post(ReadableStream.from(chunks)), LIMITS);
  return [...body];
}
Deno.test("readBody() returns the exact bytes, and takes a single chunk's memory", async () => {
  const bytes = Uint8Array.of(1, 2, 3, 4);
  assertEquals(await read(), []);
  assertEquals(await read(bytes.subarray(1, 3)), [2, 3]);
  const twice = await read(bytes, new Uint8Array(), bytes);
  assertEquals(twice.join(""), "12341234");
  // Others may use the rest, so far.
  assertEquals(bytes.byteLength, 4);
  assertEquals(await read(bytes), [1, 2, 3, 4]);
  assertEquals(bytes.byteLength, 0);
  assertEquals((await readBody(post(null), LIMITS)).byteLength, 0);
});

const LARGE = "body_too_large";
interface Body {
  chunks?: number[];
  then: End;
  length?: string;
  code?: string;
  sentBytes: number;
  afterMs?: number;
}
const TOO_LARGE: Body = {
  chunks: [1, 15, 1],
  then: "ends",
  code: LARGE,
  sentBytes: 17,
};
const SLOW = { code: "body_too_slow", sentBytes: 4, afterMs: 5_000 };
const BROKEN = { code: "body_incomplete", sentBytes: 4 };
const ANNOUNCED = { length: "17", code: LARGE };
const BODIES: Body[] = [
  { chunks: [1, 15], then: "ends", sentBytes: 16 },
  { chunks: [16], then: "ends", length: "16", sentBytes: 16 },
  TOO_LARGE,
  // Whatever the header says.
  { ...TOO_LARGE, length: "1" },
  { ...TOO_LARGE, length: "-1" },
  { ...TOO_LARGE, length: "rubbish" },
  // A body that is too large is read up to eight times the limit.
  { chunks: [15, 15, 15], then: "ends", code: LARGE, sentBytes: 45 },
  { ...ANNOUNCED, chunks: [4, 4], then: "ends", sentBytes: 8 },
  { ...ANNOUNCED, then: "ends", sentBytes: 0 },
  { ...ANNOUNCED, then: "breaks", sentBytes: 0 },
  { chunks: [20], then: "breaks", code: LARGE, sentBytes: 20 },
  { then: "goes on", code: LARGE, sentBytes: 20 + 130 },
  { ...ANNOUNCED, then: "goes on", sentBytes: 130 },
  { ...ANNOUNCED, chunks: [8], then: "goes on", sentBytes: 128 },
  // Nothing waits long for a sender that hangs.
  { chunks: [17], then: "hangs", code: LARGE, sentBytes: 17, afterMs: 1_000 },
  { ...ANNOUNCED, then: "hangs", sentBytes: 0, afterMs: 1_000 },
  { ...SLOW, chunks: [4], then: "hangs" },
  { ...SLOW, chunks: [4], then: "hangs", length: "8" },
  { ...BROKEN, chunks: [4], then: "breaks" },
  { ...BROKEN, chunks: [4], then: "breaks", length: "8" },
];
Deno.test("readBody() stops at the limits, and drops the rest later", async () => {
  for (
    const { chunks = [], then, length, code, sentBytes, afterMs } of BODIES
  ) {
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
    assertEquals(await result, code ?? new Uint8Array(sentBytes), name);
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
