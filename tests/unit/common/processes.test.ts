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
import { runTool, spawnGroup } from "../../../scripts/local_stack/tools.ts";
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
  const args = ["-c", "printf %s $DENO_TLS_CA_STORE"];
  const own = { DENO_TLS_CA_STORE: "own" };
  for (const env of [{}, own] as Environment[]) {
    const seen = { ...trustedCertificates(Deno.env.toObject()), ...env };
    const { stdout } = await createCommand("sh", { args, env }).output();
    assertEquals(new TextDecoder().decode(stdout), seen["DENO_TLS_CA_STORE"]);
  }
});

Deno.test("runTool() ends what the tool has started, even if the tool has ended", async () => {
  const file = await Deno.makeTempFile();
  const args = ["-c", 'sleep 600 & echo $! > "$0"', file];
  const env = { PATH: Deno.env.get("PATH")! };
  const ending = new AbortController();
  const tool = { purpose: "sleep", command: "sh", args, env, cwd: "/" };
  // What sleeps holds the pipe that is read to its end.
  const run = runTool(tool, ending.signal);
  const sleeping = async () =>
    await processTree(Number(await Deno.readTextFile(file)));
  const isThere = async () => (await sleeping()).size === 1;
  assert(await waitUntil(isThere, { timeoutMs: HANG_LIMIT_MS }));
  const left = leftOf(await sleeping());
  ending.abort(new Error("told to"));
  await assertRejects(() => run, Error, "told to");
  assertEquals(await left, []);
  await Deno.remove(file);
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
