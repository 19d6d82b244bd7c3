/**
 * How processes are started and ended: with which settings, and together with
 * what they have started.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  createCommand,
  trustedCertificates,
} from "../../../scripts/common/create_command.ts";
import type { Environment } from "../../../scripts/common/environment.ts";
import { runningProcesses } from "../../../scripts/common/processes.ts";
import {
  runTool,
  spawnGroup,
  SUPABASE_CLI_VERSION,
  supabaseCli,
} from "../../../scripts/local_stack/tools.ts";
import { waitUntil } from "../../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { leftOf, processTree } from "../../support/machine.ts";

const STORE = { DENO_TLS_CA_STORE: "mozilla,system" };
const NOWHERE = "/nowhere/a.pem";

Deno.test("trustedCertificates() adds the file that is named for Node, or the system's", async () => {
  const [extra, system] = [
    await Deno.makeTempFile(),
    await Deno.makeTempFile(),
  ];
  const node = { NODE_EXTRA_CA_CERTS: extra };
  const both = { ...node, SSL_CERT_FILE: system };
  const own = { DENO_CERT: system, DENO_TLS_CA_STORE: "mozilla" };
  const cases: [Environment, Environment][] = [
    [{}, STORE],
    [both, { ...STORE, DENO_CERT: extra }],
    [{ ...both, NODE_EXTRA_CA_CERTS: "" }, { ...STORE, DENO_CERT: system }],
    // The user's own settings for Deno win.
    [{ ...node, ...own }, own],
    // Deno 2.1.4 crashes if the system's file does not exist.
    [{ NODE_EXTRA_CA_CERTS: NOWHERE }, STORE],
    [{ SSL_CERT_FILE: NOWHERE }, {}],
  ];
  for (const [env, trusted] of cases) {
    assertEquals(trustedCertificates(env), trusted, JSON.stringify(env));
  }
  for (const file of [extra, system]) await Deno.remove(file);
});

Deno.test("createCommand() gives a process these, below its own settings", async () => {
  const machine = Deno.env.toObject();
  const store = { ...machine, ...trustedCertificates(machine) };
  for (
    const [env, seen = ""] of [
      [{}, store["DENO_TLS_CA_STORE"]],
      [{ DENO_TLS_CA_STORE: "own" }, "own"],
    ] as const
  ) {
    const options = { args: ["-c", "printf %s $DENO_TLS_CA_STORE"], env };
    const { stdout } = await createCommand("sh", options).output();
    assertEquals(new TextDecoder().decode(stdout), seen);
  }
});

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

Deno.test("runTool() gives up when it is told to, even if only what the tool has started is left", async () => {
  const file = await Deno.makeTempFile();
  const ending = new AbortController();
  // What sleeps holds the pipe that is read to its end.
  const run = runTool(
    shell('sleep 600 & echo $! > "$1"', file),
    ending.signal,
  );
  const isAlone = async () =>
    Deno.readTextFileSync(file).endsWith("\n") &&
    (await runningProcesses()).values()
      .every(({ parent }) => parent !== Deno.pid);
  assert(await waitUntil(isAlone, { timeoutMs: HANG_LIMIT_MS }));
  const sleeping = await processTree(Number(Deno.readTextFileSync(file)));
  assertEquals(sleeping.size, 1);
  ending.abort(new Error("told to"));
  const left = leftOf(sleeping);
  await assertRejects(() => run, Error, "told to");
  assertEquals(await left, []);
  await Deno.remove(file);
  // Its group is gone.
  const gone = spawnGroup({ command: "true", args: [], options: {} });
  await gone.ended;
  gone.kill("SIGTERM");
});

Deno.test("supabaseCli() runs the same version from npm with Deno on other platforms", () => {
  for (const os of ["darwin", "linux"] as const) {
    const words = supabaseCli({ os, arch: "aarch64" });
    assertEquals(words[0], Deno.execPath());
    assertEquals(words.at(-1), `npm:supabase@${SUPABASE_CLI_VERSION}`);
  }
});

const MODULE = import.meta.resolve("../../../scripts/common/abort_on_end.ts");

for (
  const [title, npx, endsAfterMs, expected] of [
    ["at once if npx has already ended", "npx", HANG_LIMIT_MS, "gone"],
    ["never if nothing launched the process", "", 1_500, "nothing"],
  ] as const
) {
  Deno.test(`watchLauncher() calls back ${title}`, async () => {
    const script = `
      import { watchLauncher } from ${JSON.stringify(MODULE)};
      const parent = Deno.ppid;
      console.log("go");
      while (Deno.ppid === parent) await new Promise((r) => setTimeout(r, 10));
      setTimeout(() => { console.log("nothing"); Deno.exit(); }, ${endsAfterMs});
      await watchLauncher(Deno.env.toObject(), () => {
        console.log("gone");
        Deno.exit();
      });`;
    const { child, ended } = spawnGroup({
      command: "sh",
      // The shell ends once its child has seen it.
      args: ["-c", '"$0" eval "$1" | { read -r _; kill $$; cat >&2; }']
        .concat(Deno.execPath(), script),
      options: {
        env: { npm_lifecycle_event: npx, npm_lifecycle_script: "'deno'" },
        stdout: "null",
        stderr: "piped",
      },
    });
    const heard = await new Response(child.stderr).text();
    await ended;
    assertEquals(heard.trim(), expected);
  });
}
