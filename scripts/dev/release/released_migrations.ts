/**
 * The migrations that a release has brought to databases. They are never edited:
 * no database applies one twice, so an edit would reach new databases only.
 *
 * @module
 */
import { join } from "node:path";
import { fingerprint } from "../../add/files.ts";
import { REPOSITORY } from "../../common/how_started.ts";
import { type Items, type Released, releasedItems } from "./released.ts";

/** The texts of the migrations, by the names of their files, in order. */
export type Migrations = ReadonlyMap<string, string>;

/** The list of the released migrations, with their hashes. */
export const RELEASED_MIGRATIONS = "tests/released/migrations.json";

/** It begins with names that a database must not have yet; each release adds some. */
const FIRST = /_billing_0001_/;
const NAMES = /'\{[^}]*\}'::name\[\]/g;

/** Reads the migrations of this version. */
export async function readMigrations(): Promise<Migrations> {
  const folder = join(REPOSITORY, "supabase/migrations");
  const names = Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();
  return new Map(
    await Promise.all(
      names.map(async (name) =>
        [name, await Deno.readTextFile(join(folder, name))] as const
      ),
    ),
  );
}

/** Returns the hashes of what must stay as it is, by the names of the files. */
export function hashesOf(migrations: Migrations): Items {
  return Object.fromEntries(
    Array.from(migrations, ([name, text]) => [name, hashOf(name, text)]),
  );
}

function hashOf(name: string, text: string): string {
  return fingerprint(FIRST.test(name) ? text.replace(NAMES, "") : text);
}

/** Returns what is wrong with the migrations, and what to do instead. */
export function migrationFaults(
  migrations: Migrations,
  released: Released,
): string[] {
  const items = releasedItems(released);
  const hashes = hashesOf(migrations);
  const changed = items.filter(({ name, value }) => hashes[name] !== value)
    .map(({ name, version }) =>
      `supabase/migrations/${name} was released with ${version}, and ${
        name in hashes ? "was edited" : "is gone"
      }. Databases have applied it, and apply it no second time. Restore it, and put the change into a new migration: CONTRIBUTING.md, "Change the database".`
    );
  const known = new Set(items.map(({ name }) => name));
  const newest = [...known].sort().at(-1) ?? "";
  const early = Object.keys(hashes)
    .filter((name) => !known.has(name) && name < newest)
    .map((name) =>
      `supabase/migrations/${name} sorts before ${newest}, which was released. Databases have applied that one, and the CLI refuses one from before it. Give it a later version.`
    );
  return [...changed, ...early];
}
