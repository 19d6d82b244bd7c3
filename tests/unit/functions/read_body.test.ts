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
Deno.test("readBody() returns the exact bytes, and takes the memory of a single chunk alone", async () => {
  const bytes = Uint8Array.of(1, 2, 3, 4);
  assertEquals(await read(), []);
  assertEquals(await read(bytes.subarray(1, 3)), [2, 3]);
  assertEquals(await read(bytes, new Uint8Array(), bytes), [
    1,
    2,
    3,
    4,
    1,
    2,
    3,
    4,
  ]);
  // Others may use the rest, so far.
  assertEquals(bytes.byteLength, 4);
  assertEquals(await read(bytes), [1, 2, 3, 4]);
  assertEquals(bytes.byteLength, 0);
  assertEquals((await readBody(post(null), LIMITS)).byteLength, 0);
});

const LARGE = "body_too_large";
const none = undefined;
type Row = [
  chunks: number[],
  then: End,
  length: string | undefined,
  code: string | undefined,
  sentBytes: number,
  afterMs?: number,
];
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
