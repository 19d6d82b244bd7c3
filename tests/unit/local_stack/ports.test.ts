import { assertEquals, assertRejects } from "@std/assert";
import { choosePorts } from "../../../scripts/local_stack/ports.ts";

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
