import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { freePort } from "../../support/machine.ts";
import { holdPorts } from "../../../scripts/local_stack/ports.ts";

const listen = (port: number) =>
  Deno.listen({ hostname: "127.0.0.1", port }).close();

Deno.test("holdPorts() lets nobody else listen until a port is freed", async () => {
  using held = await holdPorts({});
  const ports = Object.values(held.ports);
  for (const port of ports) {
    assert(port < 30_000, "the system gives it to outgoing connections");
    assertThrows(() => listen(port), Deno.errors.AddrInUse);
  }
  assertEquals(new Set(ports).size, 6);
  held.free("postgrest");
  listen(held.ports.postgrest);
  assertThrows(() => listen(held.ports.db), Deno.errors.AddrInUse);
});

Deno.test("holdPorts() names the option of a port that is in use, and holds no other", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const db = freePort();
  for (const name of ["api", "webhook", "worker", "postgrest"]) {
    await assertRejects(
      () => holdPorts({ db, [name]: port }),
      Error,
      `port ${port} is already in use. Stop what uses it or choose another: --${name}-port N`,
    );
    listen(db);
  }
});
