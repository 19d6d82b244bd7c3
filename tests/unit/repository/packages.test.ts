import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { readFolder } from "../../../scripts/add/project.ts";
import { FUNCTIONS } from "../../../scripts/common/built.ts";
import { createCommand } from "../../../scripts/common/processes.ts";
import { REPOSITORY } from "../../../scripts/common/environment.ts";
import {
  COMMANDS,
  OWN_IMPORT_MAP,
  OWN_LOCK,
} from "../../../scripts/dev/downloads.ts";
import { copyRepository } from "../../support/copy_repository.ts";

type Imports = Readonly<Record<string, string>>;

const PEERS = "bench/peers/import_map.json";

function read(path: string): string {
  return Deno.readTextFileSync(join(REPOSITORY, path));
}

function packagesOf(path: string): Imports {
  const { imports } = JSON.parse(read(path)) as { imports: Imports };
  const all = Object.entries(imports);
  return Object.fromEntries(all.filter(([, to]) => to.startsWith("npm:")));
}

function checksumsOf(lock: string): Imports {
  const { npm } = JSON.parse(read(lock)) as {
    npm: Record<string, { integrity: string }>;
  };
  return Object.fromEntries(
    Object.entries(npm)
      .map(([id, { integrity }]) => [/^@?[^@]+@[^_]+/.exec(id)![0], integrity]),
  );
}

async function json(cwd: string, command: string, ...args: string[]) {
  const { stdout } = await createCommand(command, { args, cwd }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test("each import map has exact versions, those of import_map.json", () => {
  const all = packagesOf("import_map.json");
  const maps = [
    ...FUNCTIONS.map((name) => `supabase/functions/${name}/deno.json`),
    OWN_IMPORT_MAP,
  ];
  for (const path of ["import_map.json", PEERS, ...maps]) {
    for (const [name, target] of Object.entries(packagesOf(path))) {
      assert(/@\d+\.\d+\.\d+(-[\w.]+)?(\/.*)?$/.test(target), target);
      // A part of a package has the package's version.
      const whole = all[name.split("/")[0]!]?.replace("npm:", "") ?? target;
      assert(target.includes(whole), `${path}: ${target}, not ${whole}`);
      if (path !== PEERS) assertEquals(target, all[name] ?? target, path);
    }
  }
});

Deno.test("the tests' own lock has the checksums of deno.lock", () => {
  const tested = checksumsOf("deno.lock");
  const shared = Object.entries(checksumsOf(OWN_LOCK))
    .filter(([id]) => id in tested);
  assert(shared.length > 0);
  for (const [id, sum] of shared) {
    assertEquals(sum, tested[id], `${id}: run deno task locks`);
  }
});

/** What is neither imported by a command nor copied by `add`. */
const BESIDES = [
  // The console names its sections.
  "docs/operate.md",
  "LICENSE",
  "README.md",
  "package.json",
  "supabase/config.toml",
  "deno.json",
  "deno.lock",
  "scripts/npx/main.mjs",
];

const PLANTED = [
  ".env",
  ".stack/database/x",
  "scripts/add/.env",
  "supabase/.temp/project-ref",
  "supabase/functions/.env",
  "supabase/functions/.env.local",
  "supabase/functions/billing-webhook/.env.production",
];

Deno.test("the npm package has only what commands import and add copies", async () => {
  await using clone = await copyRepository();
  for (const path of PLANTED) {
    const file = join(clone.path, path);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, "SECRET=1");
  }

  const pack = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const [{ files }] = await json(clone.path, "npm", ...pack);

  const needed = new Set(BESIDES);
  const all = COMMANDS.map((name) => `import "./scripts/${name}.ts";`).join(
    "\n",
  );
  await Deno.writeTextFile(join(clone.path, "all.ts"), all);
  const info = await json(
    clone.path,
    Deno.execPath(),
    "info",
    "--json",
    "all.ts",
  );
  for (const { local = "" } of info.modules as { local?: string }[]) {
    const path = local.replace(`${clone.path}/`, "");
    if (path !== "all.ts" && /^\w/.test(path)) needed.add(path);
  }

  for (const name of FUNCTIONS) needed.add(`dist/${name}/index.mjs`);
  const whole = [
    "functions/_shared/billing",
    "snippets",
    "migrations",
    "schemas",
  ];
  whole.push(...FUNCTIONS.map((name) => `functions/${name}`));
  for (const folder of whole) {
    const paths = (await readFolder(REPOSITORY, `supabase/${folder}`)).keys();
    for (const path of paths) needed.add(path);
  }

  assert(needed.size > 100, `only ${needed.size} files are needed`);
  const packed = (files as { path: string }[]).map(({ path }) => path);
  assertEquals(packed.sort(), [...needed].sort());
});

Deno.test("package.json has the gate's Deno, without which its program refuses", async () => {
  const [, deno] = /npx -y deno@(\S+) task test/.exec(read(".ci/run"))!;
  const manifest = JSON.parse(read("package.json"));
  // Not among `dependencies`: Deno would install itself into this repository.
  assertEquals(manifest.optionalDependencies, { deno });
  assertEquals(manifest.dependencies, undefined);

  const { prepack, ...scripts } = manifest.scripts;
  for (
    const [task, command] of Object.entries({ ...scripts, build: prepack })
  ) {
    assertEquals(command, `npx -y deno@${deno} task ${task}`);
  }

  // npm leaves it out if it cannot have it, and it is not in a clone either.
  const args = ["scripts/npx/main.mjs", "doctor"];
  const { code, stderr } = await createCommand("node", {
    args,
    cwd: REPOSITORY,
  }).output();
  const said = new TextDecoder().decode(stderr);
  assert(said.startsWith(`Deno ${deno} is missing: `), said);
  assertEquals([code, said.endsWith(", and try again.\n")], [1, true]);
});
