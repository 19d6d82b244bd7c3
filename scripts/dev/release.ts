/**
 * `deno task release`: makes this state of the repository a release, as far as
 * files go: CONTRIBUTING.md, "Release".
 *
 * @module
 */
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import {
  type CommandLine,
  parseCommandLine,
  reportEnd,
  UsageError,
} from "../common/cli.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { startStack } from "../local_stack/start_stack.ts";
import { writeGenerated } from "./generate_types.ts";
import { releaseNotes } from "./release/changelog.ts";
import { PROMISES, promisesWith } from "./release/promises.ts";
import {
  keepFunctions,
  readKeptVersion,
} from "./release/released_functions.ts";
import {
  readReleased,
  type Released,
  withRelease,
  writeReleased,
} from "./release/released.ts";
import {
  hashesOf,
  migrationFaults,
  readMigrations,
  RELEASED_MIGRATIONS,
} from "./release/released_migrations.ts";

const VERSION = /^\d+\.\d+\.\d+$/;

/** The pages that name the file that `npm pack` makes. */
const PAGES_WITH_PACKAGE = ["docs/add.md"];

const COMMAND_LINE = {
  usage: "release <version>",
  summary:
    `Makes this state a release: writes its version, what is generated from the
database, and the lists of what was released. It commits and publishes nothing.`,
  options: {
    "--published":
      "the version is published: keep its functions, for the tests of the next one",
  },
  details:
    `Before it, CHANGELOG.md needs a section for the version. Until it is published,
the same version can be made again.`,
} as const satisfies CommandLine;

if (import.meta.main) {
  Deno.exit(
    await release(Deno.args).catch((error) =>
      reportEnd(error, { err: console.error })
    ),
  );
}

async function release(args: readonly string[]): Promise<number> {
  const { values, operands: [version = "", ...more] } = parseCommandLine(
    args,
    COMMAND_LINE,
  );
  if (!VERSION.test(version) || more.length > 0) {
    throw new UsageError("Name one version, such as 1.2.0.");
  }
  if (values.published) {
    if (version !== manifest.version) {
      throw new Error(`This is version ${manifest.version}, not ${version}.`);
    }
    await keepFunctions(version);
    return 0;
  }
  // All checks come first: a release that cannot be made leaves no trace.
  const migrations = await checkBefore(version);
  const promises = await promisesWith(version);
  if (promises === undefined) {
    console.error("Nothing was written.");
    return 1;
  }
  await generate();
  await writeVersion(version);
  await writeReleased(RELEASED_MIGRATIONS, migrations);
  await writeReleased(PROMISES, promises);
  return 0;
}

/**
 * Returns the list of the migrations with this release.
 *
 * @throws {Error} If something has to be done first.
 */
async function checkBefore(version: string): Promise<Released> {
  releaseNotes(await read("CHANGELOG.md"), version);
  const { [version]: _, ...others } = await readReleased(RELEASED_MIGRATIONS);
  const last = Object.keys(others).at(-1);
  const kept = await readKeptVersion();
  if (kept === version) {
    throw new Error(`${version} is published already. Choose a later version.`);
  }
  if (kept !== last) {
    throw new Error(
      `The tests still have the functions of ${kept}, and ${last} is published. First: deno task release ${last} --published`,
    );
  }
  const migrations = await readMigrations();
  const faults = migrationFaults(migrations, others);
  if (faults.length > 0) throw new Error(faults.join("\n"));
  return withRelease(others, { version, items: hashesOf(migrations) });
}

async function writeVersion(version: string): Promise<void> {
  const replace = async (path: string, from: string, to: string) => {
    const text = await read(path);
    await Deno.writeTextFile(join(REPOSITORY, path), text.replaceAll(from, to));
  };
  const { name, version: old } = manifest;
  await replace(
    "package.json",
    `"version": "${old}"`,
    `"version": "${version}"`,
  );
  for (const page of PAGES_WITH_PACKAGE) {
    await replace(page, `${name}-${old}.tgz`, `${name}-${version}.tgz`);
  }
}

/** Writes what is generated from a database that has all migrations. */
async function generate(): Promise<void> {
  const dataDir = await Deno.makeTempDir({
    prefix: "billing-webhook-release-",
  });
  try {
    await using stack = await startStack({
      dataDir,
      functions: false,
      fsync: false,
      onProgress: (text) => console.log(text),
    });
    await writeGenerated(stack.dbUrl);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
}

function read(path: string): Promise<string> {
  return Deno.readTextFile(join(REPOSITORY, path));
}
