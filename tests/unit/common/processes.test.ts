import { assertEquals } from "@std/assert";
import { trustedCertificates } from "../../../scripts/common/create_command.ts";
import type { Environment } from "../../../scripts/common/environment.ts";
import { spawnGroup } from "../../../scripts/local_stack/tools.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

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

const MODULE = import.meta.resolve("../../../scripts/common/abort_on_end.ts");

Deno.test("watchLauncher() calls back at once if npx has already ended", async () => {
  const script = `
    import { watchLauncher } from ${JSON.stringify(MODULE)};
    const parent = Deno.ppid;
    console.log("go");
    while (Deno.ppid === parent) await new Promise((r) => setTimeout(r, 10));
    setTimeout(() => { console.log("nothing"); Deno.exit(); }, ${HANG_LIMIT_MS});
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
      env: { npm_lifecycle_event: "npx", npm_lifecycle_script: "'deno'" },
      stdout: "null",
      stderr: "piped",
    },
  });
  const heard = await new Response(child.stderr).text();
  await ended;
  assertEquals(heard.trim(), "gone");
});
