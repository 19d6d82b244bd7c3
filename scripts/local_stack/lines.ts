import { writeAll } from "./bytes.ts";

/** Writes lines, and never makes the rest of the process wait for a reader. */
export interface LineWriter {
  print(line: string): void;
  /** Waits until all is written, but no longer than that. */
  flush(options: { withinMs: number }): Promise<void>;
}

/** Of lines that nobody has read yet, in characters. */
const MAX_WAITING = 1_048_576;

/** Others of the same terminal or pipe may have made it non-blocking. */
const FULL_RETRY_MS = 50;

/**
 * Makes a writer. If its reader is too slow, the oldest lines are dropped, and
 * a line says how many.
 *
 * @param onGone is called once if writing fails, as when the reader has ended
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
    while (waiting > MAX_WAITING && lines.length > 1) {
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
        await delay(FULL_RETRY_MS);
      }
    }
  }

  async function flush({ withinMs }: { withinMs: number }) {
    await Promise.race([writing, delay(withinMs)]);
  }

  return { print, flush };
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
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
