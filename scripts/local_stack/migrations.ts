/** Applies migrations, and keeps the Supabase CLI's list of what is applied. */
import { join } from "node:path";
import postgres from "postgres";
import { FaultInLines, printable, wrap } from "../common/cli.ts";
import { asTyped, PROJECT, REPOSITORY } from "../common/environment.ts";
import { runSupabaseCli } from "./tools.ts";
import { withDatabase } from "./databases.ts";

interface Migration {
  readonly file: string;
  readonly version: string; // the digits before the name
  readonly name: string;
  readonly text: string;
}

const LIST_SQL = `
  create schema if not exists supabase_migrations;
  create table if not exists supabase_migrations.schema_migrations (
    version text primary key, statements text[], name text
  )`;

/**
 * Supabase's default privileges before 30 October 2026: everything that `postgres`
 * creates in schema public is granted to the API's roles.
 */
export const LEGACY_DEFAULT_PRIVILEGES_SQL = [
  "tables",
  "sequences",
  "functions",
]
  .map((objects) => `
    alter default privileges for role postgres in schema public
    grant all on ${objects} to anon, authenticated, service_role;
  `).join("");

const RESET = `run with the same --data: ${asTyped("reset")}`;

/**
 * Applies the clone's migrations to the database of a stack. The Supabase CLI takes
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
  const applied = await withDatabase(dbUrl, readApplied);
  const files = new Map(
    readMigrations(REPOSITORY).map(({ version, text }) => [version, text]),
  );

  for (const [version, text] of applied) {
    if (essence(files.get(version) ?? "") !== text) refuse(version);
  }
  if (applied.size > 0 && applied.size === files.size) return;

  const remote = `--remote=${dbUrl}?sslmode=disable`;
  // A migration from another branch may be older than the last applied one.
  await runSupabaseCli(["migration", "up", "--include-all", remote, "--yes"], {
    purpose: "apply the migrations",
    home: cliHome,
    signal,
  });
}

/**
 * Applies the migrations of the user's project, the receiver's among them. Those
 * that fail are left out, because the local database lacks some of what Supabase's
 * has. Aborting the signal ends the one that runs.
 *
 * @returns lines to print: what failed, and what is applied without a file
 * @throws {Error} If an applied migration has changed since, or if one of the
 * receiver's fails
 */
export async function updateProjectDatabase(
  dbUrl: string,
  { project = PROJECT, signal }: {
    project?: string;
    signal?: AbortSignal | undefined;
  },
): Promise<readonly string[]> {
  const migrations = readMigrations(project);
  const manifest = join(project, "supabase", "billing.json");
  const { files: ours } = JSON.parse(await Deno.readTextFile(manifest));

  return await withDatabase(dbUrl, async (sql) => {
    signal?.addEventListener("abort", () => sql.end({ timeout: 0 }));
    const applied = await readApplied(sql);
    const isApplied = ({ version, text }: Migration) =>
      applied.get(version) === essence(text);
    const current = migrations.filter(isApplied).map(({ version }) => version);
    const pending = migrations.filter((migration) => !isApplied(migration));
    for (const { version, file } of pending) {
      // Of two files with the same version, only one can be applied.
      if (applied.has(version) && !current.includes(version)) refuse(file);
    }

    // What projects that are older have, and the Supabase CLI's default.
    const config = join(project, "supabase", "config.toml");
    const text = await Deno.readTextFile(config).catch(() => "");
    if (!/^ *auto_expose_new_tables *= *false/m.test(text)) {
      await sql.unsafe(LEGACY_DEFAULT_PRIVILEGES_SQL).simple();
    }

    const notes: string[] = [];
    for (const migration of pending) {
      const error = await applyMigration(sql, migration).catch((error) =>
        error
      );
      if (error === undefined) continue;
      if (!(error instanceof postgres.PostgresError)) throw error;
      const reason = wrap(printable(error.message), 74).slice(0, 12);
      const lines = [
        `  ${migration.file}`,
        ...reason.map((line) => `    ${line}`),
      ];
      if (`migrations/${migration.file}` in ours) {
        const title = "Cannot start, because the receiver's migration failed:";
        const hint = `To delete the local data, ${RESET}`;
        throw new FaultInLines([title, ...lines, hint].join("\n"));
      }
      notes.push(...lines);
    }
    if (notes.length > 0) {
      notes.unshift(
        "These failed and are left out. Each start tries them again:",
      );
    }

    for (const version of applied.keys()) {
      if (migrations.some((migration) => migration.version === version)) {
        continue;
      }
      notes.push(`${version} is still applied, without a file`);
    }
    return notes;
  });
}

/** Applies a migration and lists it, or throws and leaves nothing of it. */
export async function applyMigration(
  sql: postgres.Sql,
  { version, name, text }: Migration,
): Promise<void> {
  // So that what an earlier one has set ends with it, as with the Supabase CLI.
  await sql`reset all`;
  await sql.begin(async (tx) => {
    await tx.unsafe(text).simple();
    await tx`
      insert into supabase_migrations.schema_migrations
      values (${version}, ${[text]}, ${name})`;
  });
}

/** Returns the migrations of a project that the Supabase CLI recognizes. */
export function readMigrations(project: string): readonly Migration[] {
  const folder = join(project, "supabase", "migrations");
  const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
  return names.sort().flatMap((file) => {
    const [, version, name] = /^(\d+)_(.*)\.sql$/.exec(file) ?? [];
    if (version === undefined || name === undefined) return [];
    const text = Deno.readTextFileSync(join(folder, file));
    // The Supabase CLI ignores a byte order mark, too.
    return { file, version, name, text: text.replace(/^\ufeff/, "") };
  });
}

/** Returns the essence of each applied migration, by version. */
export async function readApplied(
  sql: postgres.Sql,
): Promise<ReadonlyMap<string, string>> {
  await sql.unsafe(LIST_SQL).simple();
  const rows = await sql`
    select version, coalesce(array_to_string(statements, ''), '') as text
    from supabase_migrations.schema_migrations`;
  return new Map(rows.map((row) => [row["version"], essence(row["text"])]));
}

/** Removes space and semicolons: the Supabase CLI stores none between statements. */
function essence(text: string): string {
  return text.replaceAll(/[\s;]+/g, "");
}

function refuse(migration: string): never {
  throw new Error(
    `Cannot start: the local data was made by another version of migration ${migration}. To delete it, ${RESET}`,
  );
}
