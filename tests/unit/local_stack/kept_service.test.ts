import { assert, assertEquals, assertMatch } from "@std/assert";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { createKeptService } from "../../../scripts/local_stack/kept_service.ts";

/** Returns a service that runs a script, which says "ready" as it starts. */
function keptScript(script: string) {
  const lines: (readonly [line: string, source: string])[] = [];
  const service = createKeptService({
    name: "script",
    command: Deno.execPath(),
    args: ["eval", `console.log("ready"); ${script}`],
    env: { NO_COLOR: "1" },
    cwd: Deno.cwd(),
    isReady: () => starts() > 0,
    stopSignal: "SIGTERM",
  }, (line, source) => lines.push([line, source]));
  const of = (name: string) =>
    lines.filter(([, source]) => source === name).map(([line]) => line);
  const starts = () => of("script").filter((line) => line === "ready").length;
  return { service, starts, said: () => of("restart") };
}

Deno.test("a kept service that ends starts again, and says why, less and less often", async () => {
  const { service, starts, said } = keptScript(
    "setTimeout(() => { throw new Error('why'); }, 100);",
  );
  await service.start();
  const isAgain = await waitUntil(() => starts() === 2 && said().length === 2, {
    timeoutMs: HANG_LIMIT_MS,
  });
  await service.stop();
  assert(isAgain, "it did not start again");
  const [first = "", second = ""] = said();
  assertMatch(
    first,
    /^script ended: error: .*Error: why\. It starts again in 1 s, or when you save\.$/,
  );
  assertMatch(second, / in 2 s, /);
});

Deno.test("a kept service that was stopped stays so", async () => {
  const { service, starts, said } = keptScript(
    "setTimeout(() => Deno.exit(3), 100);",
  );
  await service.start();
  await waitUntil(() => said().length === 1, { timeoutMs: HANG_LIMIT_MS });
  assertMatch(said()[0] ?? "", /^script ended with code 3\. It starts/);
  await service.stop();
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assertEquals(starts(), 1);
});
