import { setTimeout as sleep } from "node:timers/promises";
import { writeAll } from "./bytes.ts";

/** Writes lines without making the rest of the process wait for a reader. */
export interface LineWriter {
  readonly print: (line: string) => void;
  /** Waits until all lines are written, or the time is up. */
  readonly flush: (options: { readonly withinMs: number }) => Promise<void>;
}

/** How much is kept of lines that nobody has read yet. */
const MAX_WAITING_CHARACTERS = 1_048_576;

/** Another process may have made the same terminal or pipe non-blocking. */
const FULL_RETRY_MS = 50;

/**
 * Returns a writer. If its reader is too slow, the oldest lines are dropped, and
 * one line says how many.
 *
 * @param onGone called once if writing fails, for example if the reader ended
 */
export function createLineWriter(
  to: { write: (bytes: Uint8Array) => Promise<number> },
  onGone: () => void,
): LineWriter {
  let lines: string[] = [];
  let waiting = 0;
  let dropped = 0;
  let isGone = false;
  let writing: Promise<void> | undefined;

  function print(line: string) {
    if (isGone) return;
    lines.push(line);
    waiting += line.length;
    while (waiting > MAX_WAITING_CHARACTERS && lines.length > 1) {
      waiting -= lines.shift()?.length ?? 0;
      dropped++;
    }
    writing ??= writeWaiting();
  }

  async function writeWaiting() {
    try {
      while (lines.length > 0) await writeAll({ write }, takeWaiting());
    } catch {
      isGone = true;
      lines = [];
      onGone();
    }
    writing = undefined;
  }

  function takeWaiting() {
    const gap = dropped > 0
      ? [`(${dropped} lines were dropped because nobody read them)`]
      : [];
    const text = [...gap, ...lines, ""].join("\n");
    lines = [];
    waiting = dropped = 0;
    return new TextEncoder().encode(text);
  }

  async function write(bytes: Uint8Array): Promise<number> {
    for (;;) {
      try {
        return await to.write(bytes);
      } catch (error) {
        if (!(error instanceof Deno.errors.WouldBlock)) throw error;
        await sleep(FULL_RETRY_MS);
      }
    }
  }

  async function flush({ withinMs }: { withinMs: number }) {
    await Promise.race([writing, sleep(withinMs)]);
  }

  return { print, flush };
}

/** Calls `onLine` for each line of UTF-8 text, also for an unfinished last one. */
export async function readLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: (line: string) => void,
): Promise<void> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line.replace(/\r$/, ""));
  }
  if (rest !== "") onLine(rest);
}
