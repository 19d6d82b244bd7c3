import { assert, assertEquals, assertRejects } from "@std/assert";
import { childrenOf } from "../../../scripts/common/processes.ts";
import { runTool } from "../../../scripts/common/run_tool.ts";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { leftOf, processTree } from "../../support/machine.ts";

function shell(script: string) {
  return {
    purpose: "try a tool",
    command: "/bin/sh",
    args: ["-c", script],
    env: { PATH: Deno.env.get("PATH")! },
    cwd: "/",
  };
}

Deno.test("runTool() returns what the tool printed, or throws with it", async () => {
  assertEquals(await runTool(shell("echo said")), "said\n");
  await assertRejects(
    () => runTool(shell("echo said; echo why >&2; exit 3")),
    Error,
    "Cannot try a tool: the command ended with code 3.\nsaid\n\nwhy",
  );
});

for (
  const [name, then] of [
    ["and ends what the tool has started", "wait"],
    ["if only what the tool has started is left", "exit 0"],
  ] as const
) {
  Deno.test(`runTool() gives up when it is told to, ${name}`, async () => {
    const file = await Deno.makeTempFile();
    const ending = new AbortController();
    const run = runTool(
      // What sleeps holds the pipe that is read to its end.
      shell(`sleep 60 & echo $! > '${file}'; ${then}`),
      ending.signal,
    );
    const isReady = await waitUntil(
      async () =>
        Deno.readTextFileSync(file).endsWith("\n") &&
        (then === "wait" || (await childrenOf(Deno.pid)).length === 0),
      { timeoutMs: HANG_LIMIT_MS },
    );
    assert(isReady);
    const sleeping = await processTree(Number(Deno.readTextFileSync(file)));
    assertEquals(sleeping.size, 1);

    ending.abort(new Error("told to"));
    const left = leftOf(sleeping);
    await assertRejects(() => run, Error, "told to");
    assertEquals(await left, []);
    await Deno.remove(file);
  });
}
