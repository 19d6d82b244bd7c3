import { assertEquals } from "@std/assert";
import {
  isLoopback,
  isLoopbackHost,
} from "../../../scripts/common/loopback.ts";

const HERE = ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "[::1]"];

const ELSEWHERE = [
  "127.evil.example",
  "127.0.0.1.evil.example",
  "localhost.evil.example",
  "evil-localhost",
  "10.0.0.1",
  "0.0.0.0",
  "[::2]",
  "abc.supabase.co",
];

Deno.test("isLoopback() knows this machine, with any scheme and port", () => {
  for (const host of HERE) {
    for (const scheme of ["http", "https", "postgresql"]) {
      assertEquals(isLoopback(`${scheme}://${host}`), true, host);
      assertEquals(isLoopback(`${scheme}://u:p@${host}:1234/x`), true, host);
    }
  }
});

Deno.test("isLoopback() takes no other name for this machine", () => {
  for (const host of ELSEWHERE) {
    for (const scheme of ["http", "https", "postgresql"]) {
      assertEquals(isLoopback(`${scheme}://${host}:1234/x`), false, host);
      assertEquals(isLoopback(`${scheme}://127.0.0.1@${host}`), false, host);
    }
  }
  for (const text of ["", "localhost", "nonsense", "http://"]) {
    assertEquals(isLoopback(text), false, text);
  }
});

Deno.test("isLoopbackHost() reads a Host header", () => {
  for (const host of HERE) {
    assertEquals(isLoopbackHost(host), true, host);
    assertEquals(isLoopbackHost(`${host}:54321`), true, host);
  }
  for (const host of [...ELSEWHERE, "", "::1", "localhost:", "localhost:x"]) {
    assertEquals(isLoopbackHost(host), false, host);
  }
});
