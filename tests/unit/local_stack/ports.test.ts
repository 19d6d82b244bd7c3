import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { choosePorts, holdPorts } from "../../../scripts/local_stack/ports.ts";

Deno.test("holdPorts() lets nobody else listen until a port is freed", async () => {
  using held = await holdPorts({});
  const ports = Object.values(held.ports);
  const listen = (port: number) =>
    Deno.listen({ hostname: "127.0.0.1", port }).close();
  for (const port of ports) {
    assert(port < 32_768, "the system gives it to outgoing connections");
    assertThrows(() => listen(port), Deno.errors.AddrInUse);
  }
  assertEquals(new Set(ports).size, 6);
  held.free("postgrest");
  listen(held.ports.postgrest);
  assertThrows(() => listen(held.ports.db), Deno.errors.AddrInUse);
});

Deno.test("choosePorts() names the option for a port that is in use, and holds no other", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const { webhook: _, ...others } = await choosePorts({});
  await assertRejects(
    () => choosePorts({ ...others, webhook: port }),
    Error,
    `port ${port} is already in use. Stop what uses it or choose another: --webhook-port N`,
  );
  assertEquals((await choosePorts(others)).api, others.api);
});
