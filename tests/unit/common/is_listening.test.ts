import { assertEquals } from "@std/assert";
import { isListening } from "../../../scripts/common/is_listening.ts";

Deno.test("isListening() returns true only while something listens", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  assertEquals(await isListening(port), true);
  listener.close();
  assertEquals(await isListening(port), false);
});

Deno.test("isListening() returns false for a connection with itself", async () => {
  const { connect } = Deno;
  const port = 54322;
  const itself = { localAddr: { port }, [Symbol.dispose]() {} };
  Deno.connect = (() => Promise.resolve(itself)) as unknown as typeof connect;
  try {
    assertEquals(await isListening(port), false);
  } finally {
    Deno.connect = connect;
  }
});
