/**
 * However a project came to this version, its database is the same: straight,
 * from earlier versions, each or only one of them, or from a copy that was made
 * by hand before there was `add`.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import postgres from "postgres";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import { migrateFrom } from "../support/migrate_part.ts";
import { NEXT_VERSION } from "../support/previous_version.ts";
import { setting } from "../support/test_environment.ts";
import {
  makeProject,
  olderVersion,
  type ProjectFolder,
  receiver,
} from "../support/project_folder.ts";

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);

/** Takes versions one after the other, and pushes after each. */
async function dumpAfter(
  name: string,
  steps: readonly ((project: ProjectFolder) => Promise<unknown>)[],
): Promise<string[]> {
  await using project = await makeProject();
  const { url } = await createDatabase(port, { name });
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    for (const step of steps) {
      await step(project);
      await migrateFrom(project.path, url);
    }
    return await dumpSchema(sql);
  } finally {
    await sql.end();
  }
}

function take(migrationsLess: number) {
  const version = olderVersion({
    version: `0.0.${100 - migrationsLess}`,
    migrationsLess,
  });
  return (project: ProjectFolder) =>
    project.add(migrationsLess === 0 ? receiver : version);
}

/** The migrations of the previous version, by the names that they had. */
async function copyByHand(project: ProjectFolder): Promise<void> {
  for (const { version, suffix, text } of receiver.migrations) {
    if (version >= NEXT_VERSION) continue;
    const name = version + suffix.replace(/_billing_\d{4}/, "");
    await project.write(`supabase/migrations/${name}`, text);
  }
}

/** A migration of the project's own, behind all that is there, and a version. */
async function takeBehindTheirs(project: ProjectFolder): Promise<void> {
  await project.write(
    "supabase/migrations/20990101000000_theirs.sql",
    "select 2;\n",
  );
  await take(5)(project);
}

const straight = await dumpAfter("schema_straight", [take(0)]);

for (
  const [name, steps] of [
    ["two_migrations_back", [take(2), take(0)]],
    ["each_version", [take(16), takeBehindTheirs, take(0)]],
    ["versions_skipped", [take(16), take(0)]],
    ["copied_by_hand", [copyByHand, take(0)]],
  ] as const
) {
  Deno.test(`the schema is that of a straight add: ${name.replaceAll("_", " ")}`, async () => {
    assert(straight.length > 200, `${straight.length} statements`);
    assertEquals(await dumpAfter(`schema_${name}`, steps), straight);
  });
}
