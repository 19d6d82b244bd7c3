import { assert, assertEquals, assertRejects } from "@std/assert";
import { runningProcesses } from "../../../scripts/common/processes.ts";
import {
  runSupabaseCli,
  runTool,
  spawnGroup,
  SUPABASE_CLI_VERSION,
  supabaseCli,
} from "../../../scripts/local_stack/tools.ts";
import { waitUntil } from "../../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { leftOf, processTree } from "../../support/machine.ts";

function shell(script: string, ...args: string[]) {
  return {
    purpose: "try a tool",
    command: "/bin/sh",
    args: ["-c", script, "sh", ...args],
    env: { PATH: Deno.env.get("PATH")!, OWN: "1" },
    cwd: "/",
  };
}

Deno.test("runTool() gives the tool arguments, settings and no input, and returns what it printed", async () => {
  const word = 'an argument\'s "$HOME"';
  const print = 'echo "$1 $OWN$HOME"; cat';
  assertEquals(await runTool(shell(print, word)), `${word} 1\n`);
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
        (then === "wait" || (await runningProcesses()).values()
          .every(({ parent }) => parent !== Deno.pid)),
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

Deno.test("spawnGroup() takes no notice of a signal to a group that is gone", async () => {
  const { ended, kill } = spawnGroup({
    command: "true",
    args: [],
    options: {},
  });
  await ended;
  kill("SIGTERM");
});

Deno.test("runSupabaseCli() runs the version that import_map.json pins", async () => {
  const home = await Deno.makeTempDir();
  const said = await runSupabaseCli(["--version"], { purpose: "tell", home });
  assertEquals(said.trim(), SUPABASE_CLI_VERSION);
  await Deno.remove(home, { recursive: true });
});

Deno.test("supabaseCli() runs the same version from npm with Deno on other platforms", () => {
  for (
    const platform of [
      { os: "darwin", arch: "aarch64" },
      { os: "linux", arch: "aarch64" },
    ] as const
  ) {
    const words = supabaseCli(platform);
    assertEquals(words[0], Deno.execPath());
    assertEquals(words.at(-1), `npm:supabase@${SUPABASE_CLI_VERSION}`);
  }
});
