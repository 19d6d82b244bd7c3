import { assertEquals } from "@std/assert";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import {
  createCommand,
  trustedCertificates,
} from "../../../scripts/common/create_command.ts";
import type { Environment } from "../../../scripts/common/environment.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";

/** The ways to start a process. */
const STARTS = /\bDeno\s*\.\s*Command\(|["'](?:node:)?child_process["']/;

Deno.test("only createCommand() starts a process", () => {
  // Deployed code may not start processes, so it is not searched.
  const starting = ["bench", "scripts", "tests"].flatMap((folder) =>
    readdirSync(join(REPOSITORY, folder), { recursive: true })
      .map((name) => `${folder}/${name}`)
      .filter((path) => /\.[cm]?[jt]sx?$/.test(path))
      .filter((path) =>
        STARTS.test(Deno.readTextFileSync(join(REPOSITORY, path)))
      )
  );
  assertEquals(starting.sort(), [
    "scripts/common/create_command.ts",
    "scripts/npx/main.mjs", // of the npm package, on Node.js
  ]);
});

Deno.test("createCommand() gives a process the certificates of this machine, and its own settings", async () => {
  async function settings(options: Deno.CommandOptions) {
    const names = ["DENO_CERT", "DENO_TLS_CA_STORE", "HOME", "OWN"];
    const print = `console.log(JSON.stringify(${JSON.stringify(names)}
      .map((name) => Deno.env.get(name) ?? null)))`;
    const command = { ...options, args: ["eval", print] };
    const { stdout } = await createCommand(Deno.execPath(), command).output();
    return JSON.parse(new TextDecoder().decode(stdout));
  }
  const { DENO_CERT = null, DENO_TLS_CA_STORE = null } = {
    ...Deno.env.toObject(),
    ...trustedCertificates(Deno.env.toObject()),
  };
  const home = Deno.env.get("HOME") ?? null;
  assertEquals(await settings({}), [DENO_CERT, DENO_TLS_CA_STORE, home, null]);
  assertEquals(
    await settings({ clearEnv: true, env: { OWN: "1" } }),
    [DENO_CERT, DENO_TLS_CA_STORE, null, "1"],
  );
  assertEquals(
    await settings({ env: { DENO_TLS_CA_STORE: "mozilla" } }),
    [DENO_CERT, "mozilla", home, null],
  );
});

const STORE = { DENO_TLS_CA_STORE: "mozilla,system" };
const NOWHERE = "/nowhere/a.pem";

Deno.test("trustedCertificates() adds the file that is named for Node, or the system's", async () => {
  const extra = await Deno.makeTempFile();
  const system = await Deno.makeTempFile();
  const [node, both] = [{ NODE_EXTRA_CA_CERTS: extra }, {
    NODE_EXTRA_CA_CERTS: extra,
    SSL_CERT_FILE: system,
  }];
  const own = { DENO_CERT: system, DENO_TLS_CA_STORE: "mozilla" };
  const cases: [Environment, Environment][] = [
    [{}, STORE],
    [node, { ...STORE, DENO_CERT: extra }],
    [both, { ...STORE, DENO_CERT: extra }],
    [{ ...both, NODE_EXTRA_CA_CERTS: "" }, { ...STORE, DENO_CERT: system }],
    // The user's own settings for Deno win.
    [{ ...node, ...own }, own],
    // Deno 2.1.4 crashes if the system's file does not exist.
    [{ NODE_EXTRA_CA_CERTS: NOWHERE }, STORE],
    [{ SSL_CERT_FILE: NOWHERE }, {}],
    [{ SSL_CERT_FILE: "" }, {}],
  ];
  for (const [env, trusted] of cases) {
    assertEquals(trustedCertificates(env), trusted, JSON.stringify(env));
  }
  for (const file of [extra, system]) await Deno.remove(file);
});
