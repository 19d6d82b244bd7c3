import { assert, assertEquals } from "@std/assert";
import { builtFile, FUNCTIONS } from "../../../scripts/common/built.ts";
import { createCommand } from "../../../scripts/common/processes.ts";
import { copyRepository } from "../../support/copy_repository.ts";

const HEAD = `\
/* eslint-disable */
/* eslint no-var: "error" */
// @ts-nocheck
// biome-ignore-all`;

/** In bytes: loading a function is most of its cold start. */
const LIMITS: Readonly<Record<string, number>> = {
  "billing-webhook": 300_000,
  "billing-worker": 500_000,
};

async function deno(cwd: string, ...args: string[]) {
  const command = createCommand(Deno.execPath(), { args, cwd });
  const { stdout } = await command.output();
  return new TextDecoder().decode(stdout);
}

Deno.test("a build in another folder gives the same bytes", async () => {
  await using copy = await copyRepository();
  await Deno.remove(`${copy.path}/dist`, { recursive: true });
  await deno(copy.path, "run", "-A", "--frozen", "scripts/dev/build.ts");
  for (const name of FUNCTIONS) {
    const file = builtFile(name);
    const [here, there] = await Promise.all(
      [file, `${copy.path}/dist/${name}/index.mjs`]
        .map((path) => Deno.readTextFile(path)),
    );
    assert(here === there, `${name} differs`);
    assert(new TextEncoder().encode(here).length <= LIMITS[name]!);
  }
});

Deno.test("a built file imports nothing, and uses no global that the platform lacks", async () => {
  const folder = await Deno.makeTempDir();
  for (const name of FUNCTIONS) {
    const text = await Deno.readTextFile(builtFile(name));
    // ESLint finds faults in what comes before its lines.
    assert(text.startsWith(HEAD));
    // Its own head switches the linter off.
    const linted = text.replace("// deno-lint-ignore-file", "")
      .replaceAll("// deno-lint-ignore", "");
    const file = `${folder}/${name}.mjs`;
    await Deno.writeTextFile(file, linted);

    const { modules } = JSON.parse(await deno(folder, "info", "--json", file));
    assertEquals(modules.length, 1);
    assertEquals(modules[0].dependencies ?? [], []);
    const code = text.replaceAll(/^\s*(\*|\/\/).*$/gm, "");
    assertEquals(/\b(import|require)\s*\(.*/.exec(code)?.[0], undefined);

    const rule = "--rules-include=no-undef";
    const args = ["lint", "--no-config", "--json", "--rules-tags=", rule, file];
    const { diagnostics } = JSON.parse(await deno(folder, ...args));
    const faults = (diagnostics as { code: string; message: string }[])
      .filter(({ code }) => code === "no-undef").map((it) => it.message);
    assertEquals([...new Set(faults)], ["EdgeRuntime is not defined"]);
  }
  await Deno.remove(folder, { recursive: true });
});
