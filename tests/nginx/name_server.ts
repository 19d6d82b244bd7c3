import { createSocket } from "node:dgram";

/** A name server that runs. */
export interface NameServer extends AsyncDisposable {
  readonly port: number;
  /** The names that it was asked for. */
  readonly asked: readonly string[];
}

const HEADER_LENGTH = 12;
const TYPE_A = 1;

/** Answers every question for an IPv4 address with 127.0.0.1 (RFC 1035). */
export async function startNameServer(): Promise<NameServer> {
  const asked: string[] = [];
  const socket = createSocket("udp4");
  socket.on("message", (query: Uint8Array, sender) => {
    const question = readQuestion(query);
    asked.push(question.name);
    socket.send(answerTo(query, question), sender.port, sender.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return {
    port: socket.address().port,
    asked,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => socket.close(() => resolve())),
  };
}

interface Question {
  readonly name: string;
  readonly type: number;
  readonly end: number;
}

function readQuestion(query: Uint8Array): Question {
  const labels: string[] = [];
  let at = HEADER_LENGTH;
  for (let length; (length = query[at] ?? 0) > 0; at += 1 + length) {
    labels.push(
      new TextDecoder().decode(query.subarray(at + 1, at + 1 + length)),
    );
  }
  const type = (query[at + 1] ?? 0) << 8 | (query[at + 2] ?? 0);
  return { name: labels.join("."), type, end: at + 5 };
}

function answerTo(query: Uint8Array, { type, end }: Question): Uint8Array {
  const count = type === TYPE_A ? 1 : 0;
  return Uint8Array.of(
    ...query.subarray(0, 2),
    ...[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0],
    ...query.subarray(HEADER_LENGTH, end),
    // The name of the question, type A, class IN, good for 60 s, 4 bytes.
    ...(count ? [0xc0, HEADER_LENGTH, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4] : []),
    ...(count ? [127, 0, 0, 1] : []),
  );
}
