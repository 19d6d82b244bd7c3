import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import {
  asTyped,
  isFromPackage,
  PROJECT,
  REPOSITORY,
} from "../common/how_started.ts";
import { runSupabaseCli } from "./tools.ts";
import { withDatabase } from "./databases.ts";

const MIGRATIONS = join(PROJECT, "supabase", "migrations");

/**
 * Applies the migrations to the database of a stack. The Supabase CLI takes
 * seconds, so it runs only if a migration is not applied yet. Throws if an applied
 * migration has changed since, because it is never applied again.
 */
export async function updateDatabase(
  dbUrl: string,
  { cliHome, signal }: {
    cliHome: string;
    signal?: AbortSignal | undefined;
  },
): Promise<void> {
  const applied = await readApplied(dbUrl);
  const files = new Map(
    ourMigrations().map((name) => [
      name.split("_")[0]!,
      essence(Deno.readTextFileSync(join(MIGRATIONS, name))),
    ]),
  );

  if ([...applied].some(([version, text]) => files.get(version) !== text)) {
    throw new Error(
      `Cannot start: the local data was made by another version of the migration. To delete it, run with the same --data: ${
        asTyped("reset")
      }`,
    );
  }
  if (applied.size > 0 && applied.size === files.size) return;

  const remote = `--remote=${dbUrl}?sslmode=disable`;
  // A migration from another branch may be older than the last applied one.
  await runSupabaseCli(["migration", "up", "--include-all", remote, "--yes"], {
    purpose: "apply the migrations",
    home: cliHome,
    cwd: isFromPackage ? await copyOurs(`${cliHome}.project`) : REPOSITORY,
    signal,
  });
}

/** Copies the receiver's migration into a folder that has nothing else. */
async function copyOurs(folder: string): Promise<string> {
  const names = ourMigrations();
  if (names.length === 0) {
    throw new Error(
      `Cannot start: ${MIGRATIONS} does not have the receiver's migration. If it was squashed, use Docker and "supabase start"; else run ${
        asTyped("add .")
      }`,
    );
  }

  const migrations = join(folder, "supabase", "migrations");
  await rm(migrations, { recursive: true, force: true });
  await Deno.mkdir(migrations, { recursive: true });
  const config = join(folder, "supabase", "config.toml");
  await Deno.writeTextFile(config, 'project_id = "billing-webhook"\n');

  for (const name of names) {
    await Deno.copyFile(join(MIGRATIONS, name), join(migrations, name));
  }
  return folder;
}

/**
 * Returns the migrations that the local stack applies: in a clone, all that the
 * Supabase CLI recognizes; in the user's project, those that `add` has put there. The user's own may need what the local stack does not have, such as
 * Supabase's tables of users.
 */
function ourMigrations(): string[] {
  const all = Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name);
  const names = all.filter((name) => /^\d+_.*\.sql$/.test(name)).sort();
  if (!isFromPackage) return names;

  const manifest = join(PROJECT, "supabase", "billing.json");
  if (!existsSync(manifest)) return [];
  const { files } = JSON.parse(Deno.readTextFileSync(manifest));
  return names.filter((name) => `migrations/${name}` in files);
}

function readApplied(dbUrl: string): Promise<ReadonlyMap<string, string>> {
  return withDatabase(dbUrl, async (sql) => {
    const [list] = await sql`
      select to_regclass('supabase_migrations.schema_migrations') as name`;
    // A new database has no list of migrations.
    const rows = list?.name === null ? [] : await sql`
      select version, coalesce(array_to_string(statements, ''), '') as text
      from supabase_migrations.schema_migrations`;
    return new Map(rows.map((row) => [row.version, essence(row.text)]));
  });
}

/** Removes space and semicolons: the Supabase CLI stores none between statements. */
function essence(text: string): string {
  return text.replaceAll(/[\s;]+/g, "");
}
