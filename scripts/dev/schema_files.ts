/**
 * docs/schema: the current definition of each table, view and function, one file
 * each. Later migrations replace functions of earlier ones, so the migrations do
 * not show it at a glance.
 *
 * The folder is not `supabase/schemas`: from there, the Supabase CLI would take
 * the files for the schema that a project declares.
 *
 * @module
 */
import type postgres from "postgres";
import { join } from "node:path";
import { dumpSchema } from "../../tests/support/dump_schema.ts";
import { REPOSITORY } from "../common/how_started.ts";
import {
  type Migrations,
  readMigrations,
} from "./release/released_migrations.ts";

/** The folder of the files. */
export const SCHEMA_FOLDER = "docs/schema";

/** What a statement is about; names are written with their schema. */
const OBJECT =
  /^(?:create (?:or replace )?(table|view|function)|create (?:unique )?index \S+ on|create trigger [^;]*?\son|alter table|alter publication \S+ add table|create policy \S+ on|comment on (?:table|view|column|function)|(?:revoke|grant) [^;]*? on (?:table|function)) public\.(\w+)/gim;

/** Returns the texts of the files for a database, by their names in the folder. */
export async function schemaFiles(
  sql: Pick<postgres.Sql, "unsafe">,
): Promise<Map<string, string>> {
  const definitions = definitionsOf(await readMigrations());
  const texts = new Map<string, string[]>();
  // The first statement is about no object.
  for (const statement of (await dumpSchema(sql)).slice(1)) {
    const [[, , object = ""] = []] = statement.matchAll(OBJECT);
    const definition = definitions.get(object);
    if (definition === undefined) {
      throw new Error(`No migration creates the object of: ${statement}`);
    }
    const name = `${definition.kind}s/${object}.sql`;
    const head = [
      '-- Written by "deno task types". Defined in:',
      ...definition.migrations.map((it) => `-- supabase/migrations/${it}`),
    ].join("\n");
    texts.set(name, [...texts.get(name) ?? [head], statement]);
  }
  return new Map(
    Array.from(texts, ([name, parts]) => [name, `${parts.join("\n\n")}\n`]),
  );
}

/** Where an object's definition is. */
interface Definition {
  readonly kind: string;
  /** The one that created or last replaced it, and those that changed it since. */
  readonly migrations: readonly string[];
}

/** Returns the definitions of all objects, by their names. */
export function definitionsOf(
  migrations: Migrations,
): ReadonlyMap<string, Definition> {
  const found = new Map<string, Definition>();
  for (const [migration, text] of migrations) {
    for (const [, created, object = ""] of text.matchAll(OBJECT)) {
      const before = found.get(object);
      const kind = created?.toLowerCase() ?? before?.kind;
      if (kind === undefined) continue;
      const earlier = created === undefined ? before?.migrations ?? [] : [];
      found.set(object, {
        kind,
        migrations: [...new Set([...earlier, migration])],
      });
    }
  }
  return found;
}

/** Reads the files as they are. */
export async function readSchemaFiles(): Promise<Map<string, string>> {
  const root = join(REPOSITORY, SCHEMA_FOLDER);
  const files = new Map<string, string>();
  for await (const folder of Deno.readDir(root)) {
    if (!folder.isDirectory) continue;
    for await (const { name } of Deno.readDir(join(root, folder.name))) {
      const path = `${folder.name}/${name}`;
      files.set(path, await Deno.readTextFile(join(root, path)));
    }
  }
  return files;
}

/** Writes the files, and deletes those of objects that are gone. */
export async function writeSchemaFiles(
  files: ReadonlyMap<string, string>,
): Promise<void> {
  const root = join(REPOSITORY, SCHEMA_FOLDER);
  for (const kind of ["tables", "views", "functions"]) {
    await Deno.remove(join(root, kind), { recursive: true }).catch(() => {});
    await Deno.mkdir(join(root, kind), { recursive: true });
  }
  for (const [name, text] of files) {
    await Deno.writeTextFile(join(root, name), text);
  }
}
