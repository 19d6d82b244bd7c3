/**
 * The system gives these to no outgoing connection, and a stack does not choose
 * them, so a port is still free when a process of the test listens there later.
 */
const FIRST = 30_000;
const COUNT = 2_700;

/** Tests that run at the same time begin at different places. */
let next = Deno.pid * 97;

/** Returns a port of 127.0.0.1 that nothing listens on. */
export function freePort(): number {
  for (;;) {
    const port = FIRST + next++ % COUNT;
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}
