import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { serveConsole } from "../../../scripts/console/serve.ts";

Deno.test("a console reads the overview before somebody opens it", async () => {
  const asked: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url }) => {
      asked.push(new URL(url).pathname);
      return Response.json({ message: "of the test" }, { status: 500 });
    },
  );
  const projectUrl = `http://127.0.0.1:${server.addr.port}`;
  const access = { projectUrl, secretKey: "sb_secret_of_this_test" };
  {
    await using running = await serveConsole(access, { port: 0 });
    const isRead = await waitUntil(() => asked.length >= 2, {
      timeoutMs: HANG_LIMIT_MS,
    });
    assert(isRead, asked.join());
    // What went wrong ends nothing.
    const page = await fetch(running.link, { redirect: "manual" });
    await page.text();
    assertEquals(page.status, 303);
  }
  await server.shutdown();
});
