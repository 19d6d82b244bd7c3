import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import manifest from "../../package.json" with { type: "json" };
import { builtFile, FUNCTIONS } from "../common/built.ts";
import { commandLine, reportEnd } from "../common/cli.ts";
import { REPOSITORY } from "../common/environment.ts";

/**
 * ESLint's lines come first, or it finds faults in the others. It warns if the
 * first one hides nothing, so the second one gives it something to hide.
 */
const UNCHECKED = `\
/* eslint-disable */
/* eslint no-var: "error" */
// @ts-nocheck
// biome-ignore-all assist: generated
// biome-ignore-all format: generated
// biome-ignore-all lint: generated
// deno-fmt-ignore-file
// deno-lint-ignore-file`;

/** A file of a package, where Deno installs it. */
const IN_PACKAGE =
  /^(?<folder>.*node_modules\/\.deno\/[^/]+\/node_modules\/(?:@[^/]+\/)?[^/]+)\/(?<file>.+)$/;

if (import.meta.main) {
  await writeAll().catch((error) => Deno.exit(reportEnd(error)));
}

async function writeAll(): Promise<void> {
  commandLine({
    usage: "build",
    summary:
      "Writes each function as one file into dist, which add and the npm package take.",
    options: {},
  })(Deno.args);
  for (const name of FUNCTIONS) {
    const text = await buildFunction(name);
    const file = builtFile(name);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, text);
    const kB = Math.ceil(new TextEncoder().encode(text).length / 1000);
    console.log(`Wrote ${relative(REPOSITORY, file)} (${kB} kB)`);
  }
}

/**
 * Returns a function as one module, with its packages, and their licences at its end:
 * the same bytes on any machine.
 */
async function buildFunction(name: string): Promise<string> {
  const { outputFiles: [bundle], metafile } = await build({
    entryPoints: [`supabase/functions/${name}/index.ts`],
    absWorkingDir: await Deno.realPath(REPOSITORY),
    bundle: true,
    charset: "utf8",
    conditions: ["import", "module"],
    // Packages look for these globals, which the platform lacks.
    define: { define: "undefined", process: "undefined" },
    external: ["node:*"],
    format: "esm",
    legalComments: "none",
    // The worker imports a package only for the version of another one.
    logOverride: { "ignored-bare-import": "silent" },
    mainFields: ["module", "main"],
    metafile: true,
    outfile: builtFile(name),
    platform: "neutral",
    target: "es2022",
    write: false,
  });

  const [output] = Object.values(metafile.outputs);
  const used = Object.entries(output!.inputs)
    .flatMap(([path, { bytesInOutput }]) => bytesInOutput > 0 ? path : []);

  // The bundle names the source of each part, where it is on this machine.
  let code = bundle!.text;
  const folders = new Set<string>();
  for (const path of used) {
    const { folder, file } = IN_PACKAGE.exec(path)?.groups ?? {};
    if (folder === undefined) continue;
    folders.add(folder);
    const { name, version } = await manifestOf(folder);
    code = code.replaceAll(path, `npm:${name}@${version}/${file}`);
  }

  // git takes a blank at the end of a line for a mistake.
  code = code.replaceAll(/^(\s*\*.*?) +$/gm, "$1");

  const licensed = [".", ...[...folders].sort()];
  const licences = await Promise.all(licensed.map(licenceOf));
  const notices = licences.map((text) => text.trim());
  return `${UNCHECKED}
/*
 * ${name} of ${manifest.name} ${manifest.version}.
 * Generated from supabase/functions/${name} in its repository: do not edit.
 */
${code}
/*
This file contains the following software.

${notices.join(`\n\n${"-".repeat(72)}\n\n`).replaceAll("*/", "* /")}
*/
`;
}

async function manifestOf(folder: string): Promise<Record<string, string>> {
  const path = join(REPOSITORY, folder, "package.json");
  return JSON.parse(await Deno.readTextFile(path));
}

async function licenceOf(folder: string): Promise<string> {
  const { name, version, license, author } = await manifestOf(folder);
  const files = await Array.fromAsync(Deno.readDir(join(REPOSITORY, folder)));
  const file = files.find(({ name }) => /^licen[cs]e(\.\w+)?$/i.test(name));
  const text = file === undefined
    ? `Licence: ${license}. Author: ${author}`
    : await Deno.readTextFile(join(REPOSITORY, folder, file.name));
  return `${name} ${version}\n\n${text}`;
}
