import { assertEquals, assertRejects } from "@std/assert";
import {
  createByteReader,
  decodeLatin1,
  encodeLatin1,
} from "../../../scripts/local_stack/bytes.ts";
import { copyBody } from "../../../scripts/local_stack/http_request.ts";

/** Returns a connection whose bytes arrive in pieces of one size. */
function sourceOf(text: string, piece: number) {
  let rest = encodeLatin1(text);
  function read(into: Uint8Array): Promise<number | null> {
    const some = rest.subarray(0, Math.min(piece, into.length));
    rest = rest.subarray(some.length);
    into.set(some);
    return Promise.resolve(some.length || null);
  }
  return { read };
}

async function copied(
  body: number | "chunked",
  options: { text: string; piece: number },
): Promise<{ body: string; rest: string }> {
  const reader = createByteReader(sourceOf(options.text, options.piece));
  let text = "";
  await copyBody(body, reader, (bytes) => {
    text += decodeLatin1(bytes);
    return Promise.resolve();
  });
  let rest = "";
  for (let some; (some = await reader.readSome(100));) {
    rest += decodeLatin1(some);
  }
  return { body: text, rest };
}

const BODIES = [
  [0, ""],
  [5, "a\r\n\0\xff"],
  ["chunked", "0\r\n\r\n"],
  ["chunked", "3\r\nabc\r\n0\r\n\r\n"],
  ["chunked", "3  \r\nabc\r\n0 ; a = b\r\nA: b\r\nC:\r\n\r\n"],
  ["chunked", "0A;name=value\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\nT: 1\r\n\r\n"],
] as const;

Deno.test("copyBody() stops at the end of the body, however it arrives", async () => {
  for (const [length, body] of BODIES) {
    for (const piece of [1, 2, 3, 1_000]) {
      const text = `${body}GET / HTTP/1.1`;
      assertEquals(await copied(length, { text, piece }), {
        body,
        rest: "GET / HTTP/1.1",
      });
    }
  }
});

Deno.test("copyBody() refuses an incomplete or malformed body", async () => {
  for (
    const [length, text] of [
      [3, "ab"],
      ["chunked", "3\r\nabc\r\n"],
      ["chunked", "3\r\nab"],
      ["chunked", "xyz\r\n"],
      ["chunked", "-1\r\n"],
      ["chunked", "\r\n"],
    ] as const
  ) {
    const result = await copied(length, { text, piece: 10 }).catch(() =>
      "refused"
    );
    assertEquals(result, "refused", text);
  }
});

/** What may be passed on, and the malformed rest. */
const SMUGGLED = [
  ["", "0;\n\r\n"],
  ["", "0;x=y\n\r\n"],
  ["", "0\n\r\n"],
  ["", "0;\r0\r\n"],
  ["", "0\0\r\n"],
  ["", "3\nabc\r\n"],
  ["", "0x3\r\nabc\r\n"],
  ["3\r\nabc", "\n0\r\n\r\n"],
  ["3\r\nabc", "de\r\n0\r\n\r\n"],
  ["3\r\nabc", "\r0\r\n\r\n"],
  ["0\r\n", "A: b\n\nGET / HTTP/1.1\r\n\r\n"],
  ["0\r\n", "\nGET / HTTP/1.1\r\n\r\n"],
  ["0\r\n", "GET / HTTP/1.1\r\n\r\n"],
] as const;

Deno.test("copyBody() passes on nothing that a lenient reader would end elsewhere", async () => {
  for (const [good, bad] of SMUGGLED) {
    for (const piece of [1, 3, 1_000]) {
      let passed = "";
      const text = `${good}${bad}GET /second HTTP/1.1\r\n\r\n`;
      const reader = createByteReader(sourceOf(text, piece));
      await assertRejects(
        () =>
          copyBody("chunked", reader, (bytes) => {
            passed += decodeLatin1(bytes);
            return Promise.resolve();
          }),
        SyntaxError,
        "malformed",
      );
      assertEquals(passed, good);
    }
  }
});
