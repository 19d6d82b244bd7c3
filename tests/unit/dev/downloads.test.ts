import { assertEquals } from "@std/assert";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { NO_DOWNLOADS } from "../../../scripts/dev/test/downloads.ts";

const REGISTRY = "registry.invalid";
const MACHINE: Record<string, string> = {
  NO_PROXY: REGISTRY,
  no_proxy: REGISTRY,
};

Deno.test("NO_DOWNLOADS leads to the proxy, also for hosts that the machine asks without one", async () => {
  using proxy = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${proxy.addr.port}`;
  const fetching = createCommand(Deno.execPath(), {
    args: ["eval", `await fetch("https://${REGISTRY}").catch(() => {})`],
    env: {
      ...MACHINE,
      ...NO_DOWNLOADS,
      HTTPS_PROXY: url,
      https_proxy: url,
    },
  }).output();
  const asked = await Promise.race([firstLine(proxy), fetching]);
  assertEquals(asked, `CONNECT ${REGISTRY}:443 HTTP/1.1`);
  await fetching;
});

/** The first line of the first client, which is then left without an answer. */
async function firstLine(listener: Deno.TcpListener): Promise<string> {
  try {
    using client = await listener.accept();
    const bytes = new Uint8Array(1024);
    const length = await client.read(bytes) ?? 0;
    return new TextDecoder().decode(bytes.subarray(0, length))
      .split("\r\n")[0]!;
  } catch {
    return "nothing";
  }
}
