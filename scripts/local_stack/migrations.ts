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

export const MIGRATIONS = join(PROJECT, "supabase", "migrations");

/**
 * What the local stack applies: in a clone, what the Supabase CLI takes for a
 * migration; in the user's project, the receiver's, whatever version it has
 * there. The user's own may need what the local stack does not have, such as
 * Supabase's tables of users.
 */
const OURS = isFromPackage ? /^\d+_billing\.sql$/ : /^\d+_.*\.sql$/;

/**
 * Returns how the files of the migrations differ from what the database has
 * applied, with what to do; undefined if they do not. A migration that is
 * applied is never applied again, so a change of its file needs a new database.
 */
export async function checkMigrations(dbUrl: string) {
  const applied = await readApplied(dbUrl);
  const files = new Map(
    ourMigrations().map((name) => [
      name.split("_")[0]!,
      essence(Deno.readTextFileSync(join(MIGRATIONS, name))),
    ]),
  );
  if (
    applied.entries().some(([version, text]) => files.get(version) !== text)
  ) {
    const text = `the data was made by another version: ${asTyped("reset")}`;
    return { kind: "changed", text } as const;
  }
  const waiting = files.keys().find((version) => !applied.has(version));
  if (waiting === undefined) return undefined;
  const text = `${waiting} is not applied yet: restart ${asTyped("start")}`;
  return { kind: "waiting", text } as const;
}

/**
 * Applies the migrations to the database of a stack. If it has all of them, the
 * Supabase CLI, which takes seconds, is not started. Throws if the database was
 * made by another version of them.
 */
export async function updateDatabase(
  dbUrl: string,
  options: Parameters<typeof applyMigrations>[1],
): Promise<void> {
  const finding = await checkMigrations(dbUrl);
  if (finding?.kind === "waiting") await applyMigrations(dbUrl, options);
  if (finding?.kind !== "changed") return;
  throw new Error(
    `Cannot start: the local data was made by another version of the migration. Delete the data with: ${
      asTyped("reset")
    }`,
  );
}

/**
 * Applies the migrations that a database does not have yet, with the Supabase
 * CLI, as the role `postgres`.
 */
export async function applyMigrations(
  databaseUrl: string,
  { cliHome, signal }: {
    readonly cliHome: string;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<void> {
  const remote = `--remote=${databaseUrl}?sslmode=disable`;
  // Also those older than the last applied one, from another branch.
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

function ourMigrations(): string[] {
  return Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name)
    .filter((name) => OURS.test(name)).sort();
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

/** The Supabase CLI stores statements without what is between them. */
function essence(text: string): string {
  return text.replaceAll(/[\s;]+/g, "");
}
