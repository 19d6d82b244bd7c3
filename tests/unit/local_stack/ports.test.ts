import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { choosePorts, holdPorts } from "../../../scripts/local_stack/ports.ts";

Deno.test("choosePorts() finds a different free port for each part", async () => {
  const ports = await choosePorts({ api: 0 });
  assertEquals(new Set(Object.values(ports)).size, 6);
  assertEquals(Object.values(ports).every((port) => port > 0), true);
});

Deno.test("choosePorts() names the option for a port that is in use", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  await assertRejects(
    () => choosePorts({ webhook: port }),
    Error,
    `port ${port} is already in use. Stop what uses it or choose another: --webhook-port N`,
  );
});

Deno.test("choosePorts() does not keep the ports open", async () => {
  const first = await choosePorts({});
  assertEquals(await choosePorts(first), first);
});

Deno.test("holdPorts() lets nobody else listen until a port is freed", async () => {
  using held = await holdPorts({});
  const listen = (port: number) =>
    Deno.listen({ hostname: "127.0.0.1", port }).close();
  for (const port of Object.values(held.ports)) {
    assertThrows(() => listen(port), Deno.errors.AddrInUse);
  }
  held.free("postgrest");
  listen(held.ports.postgrest);
  assertThrows(() => listen(held.ports.db), Deno.errors.AddrInUse);
});

Deno.test("holdPorts() holds nothing if a wanted port is in use", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { webhook: _, ...others } = await choosePorts({});
  await assertRejects(() =>
    holdPorts({ ...others, webhook: listener.addr.port })
  );
  assertEquals((await choosePorts(others)).api, others.api);
});
