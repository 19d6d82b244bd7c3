/**
 * The load generator, a process of its own. It sends requests that were built
 * beforehand over keep-alive connections, each waiting for its answer before
 * the next, and prints what it measured as one line of JSON.
 *
 * It speaks just enough HTTP/1.1 for that: on two cores, what the generator
 * costs is missing elsewhere.
 */

/** What to send, where and for how long. */
export interface LoadPlan {
  readonly port: number;
  readonly connections: number;
  /** A file of requests, each behind its length as 32 bits, little-endian. */
  readonly requests: string;
  /** By default, until each request is sent. */
  readonly seconds?: number;
  /** Of load before the measured time. None by default. */
  readonly warmUpSeconds?: number;
  /** At most this many; by default, as many as possible. */
  readonly perSecond?: number;
}

/** What came of it. Times in milliseconds. */
export interface LoadResult {
  /** All answers, errors and those of the warm-up included. */
  readonly answers: number;
  /** Answers other than 200, those of the warm-up included. */
  readonly errors: number;
  /** Answers with 200 that arrived in the measured time. */
  readonly perSecond: number;
  /** Of what was sent in the measured time. */
  readonly p50: number;
  readonly p99: number;
}

if (import.meta.main) {
  const plan: LoadPlan = JSON.parse(Deno.args[0] ?? "");
  console.log(JSON.stringify(await generateLoad(plan)));
}

async function generateLoad(plan: LoadPlan): Promise<LoadResult> {
  const bytes = await Deno.readFile(plan.requests);
  const view = new DataView(bytes.buffer);
  let offset = 0;
  const next = () => {
    if (offset >= bytes.length) {
      if (plan.seconds === undefined) return;
      throw new Error("Cannot go on: the requests ran out; build more");
    }
    const length = view.getUint32(offset, true);
    const request = bytes.subarray(offset + 4, offset + 4 + length);
    offset += 4 + length;
    return request;
  };

  const times: number[] = [];
  let answers = 0;
  let errors = 0;
  let measured = 0;
  const began = performance.now() + (plan.warmUpSeconds ?? 0) * 1000;
  const end = began + (plan.seconds ?? Infinity) * 1000;
  await Promise.all(Array.from({ length: plan.connections }, async () => {
    using connection = await Deno.connect({
      hostname: "127.0.0.1",
      port: plan.port,
    });
    connection.setNoDelay();
    const space = new Uint8Array(65_536);
    const pause = plan.perSecond === undefined
      ? 0
      : plan.connections * 1000 / plan.perSecond;
    let due = performance.now() + Math.random() * pause;
    while (performance.now() < end) {
      const early = due - performance.now();
      if (early > 1) await new Promise((go) => setTimeout(go, early));
      due = Math.max(due + pause, performance.now());
      const request = next();
      if (request === undefined) return;
      const sent = performance.now();
      await writeAll(connection, request);
      const status = await readAnswer(connection, space);
      const answered = performance.now();
      answers++;
      if (status !== 200) errors++;
      else if (answered >= began && answered <= end) measured++;
      if (sent >= began) times.push(answered - sent);
    }
  }));
  const seconds = plan.seconds ?? (performance.now() - began) / 1000;

  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(times.length * share)] ?? NaN;
  return {
    answers,
    errors,
    perSecond: measured / seconds,
    p50: at(0.5),
    p99: at(0.99),
  };
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array) {
  for (let at = 0; at < bytes.length;) {
    at += await connection.write(bytes.subarray(at));
  }
}

/** Reads one answer to its end; its length is told, or it comes in chunks. */
async function readAnswer(
  connection: Deno.Conn,
  space: Uint8Array,
): Promise<number> {
  const decoder = new TextDecoder("latin1");
  let text = "";
  for (;;) {
    const length = await connection.read(space);
    if (length === null) throw new Error("The server closed the connection");
    text += decoder.decode(space.subarray(0, length));
    const headEnd = text.indexOf("\r\n\r\n");
    if (headEnd < 0) continue;
    const head = text.slice(0, headEnd);
    const told = /content-length: (\d+)/i.exec(head)?.[1];
    const isWhole = told === undefined
      ? text.endsWith("0\r\n\r\n")
      : text.length >= headEnd + 4 + Number(told);
    if (isWhole) return Number(head.slice(9, 12));
  }
}
