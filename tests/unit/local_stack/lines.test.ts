import { assert, assertEquals } from "@std/assert";
import { createLineWriter } from "../../../scripts/local_stack/lines.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

/** Returns a writer to a pipe whose reader can pause, resume and end. */
function pipe() {
  let said = "";
  let reading: Promise<void> | undefined;
  let full = false;
  let gone = 0;
  const writer = createLineWriter({
    write: async (bytes) => {
      await reading;
      if (full) {
        full = false;
        throw new Deno.errors.WouldBlock("full");
      }
      if (said === "gone") throw new Deno.errors.BrokenPipe("nobody reads");
      // As little as a pipe may take.
      const taken = bytes.subarray(0, 60_000);
      said += new TextDecoder().decode(taken);
      return taken.length;
    },
  }, () => gone++);
  return {
    ...writer,
    said: () => said,
    gone: () => gone,
    stall: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      reading = promise;
      return resolve;
    },
    fill: () => full = true,
    end: () => said = "gone",
  };
}

Deno.test("createLineWriter() writes every line, in order", async () => {
  const { print, flush, said } = pipe();
  const lines = Array.from({ length: 20_000 }, (_, i) => `line ${i}`);
  for (const line of lines) print(line);
  await flush({ withinMs: HANG_LIMIT_MS });
  assertEquals(said(), `${lines.join("\n")}\n`);
});

Deno.test("createLineWriter() drops the oldest lines while nobody reads, and says how many", async () => {
  const { print, flush, said, stall } = pipe();
  const goOn = stall();
  print("first");
  const line = "x".repeat(1023);
  for (let i = 0; i < 3_000; i++) print(`${i} ${line}`.slice(0, 1024));
  await flush({ withinMs: 10 });
  assertEquals(said(), "");
  goOn();
  await flush({ withinMs: HANG_LIMIT_MS });
  const [first, gap, ...rest] = said().trimEnd().split("\n");
  // 1 MiB is 1024 lines of 1024 characters.
  assertEquals(first, "first");
  assertEquals(gap, "(1976 lines were dropped because nobody read them)");
  assertEquals(rest.length, 1024);
  assert(rest.at(-1)?.startsWith("2999 "));
});

Deno.test("createLineWriter() waits while a pipe is full", async () => {
  const { print, flush, said, fill, gone } = pipe();
  fill();
  print("line");
  await flush({ withinMs: HANG_LIMIT_MS });
  assertEquals([said(), gone()], ["line\n", 0]);
});

Deno.test("createLineWriter() reports once that the reader is gone", async () => {
  const { print, flush, gone, end } = pipe();
  end();
  for (const line of ["one", "two"]) {
    print(line);
    await flush({ withinMs: HANG_LIMIT_MS });
  }
  assertEquals(gone(), 1);
});
