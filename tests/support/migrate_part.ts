import { REPOSITORY } from "../../scripts/common/how_started.ts";
import { readReleased } from "../../scripts/dev/release/released.ts";
import { RELEASED_MIGRATIONS } from "../../scripts/dev/release/released_migrations.ts";
import { runSupabaseCli } from "../../scripts/common/supabase_cli.ts";

const MIGRATIONS = `${REPOSITORY}/supabase/migrations`;

/** The names of the migrations' files, in order. */
export function migrationNames(): string[] {
  return [...Deno.readDirSync(MIGRATIONS)].map(({ name }) => name).sort();
}

/** A migration's version: the number that its file's name begins with. */
export function migrationVersions(): string[] {
  return migrationNames().map((name) => name.split("_")[0] ?? "");
}

/** The names of the migrations that a release does not have, in order. */
export async function migrationsSince(release: string): Promise<string[]> {
  const released = await readReleased(RELEASED_MIGRATIONS);
  const versions = Object.keys(released);
  const known = versions.slice(0, versions.indexOf(release) + 1)
    .flatMap((version) => Object.keys(released[version] ?? {}));
  return migrationNames().filter((name) => !known.includes(name));
}

/**
 * Applies the migrations to a database with the Supabase CLI: all of them, or
 * those before a version, as an earlier state of the project had them.
 */
export async function migrate(
  databaseUrl: string,
  { before }: { before?: string } = {},
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-migrate-" });
  try {
    await Deno.mkdir(`${folder}/supabase/migrations`, { recursive: true });
    await Deno.copyFile(
      `${REPOSITORY}/supabase/config.toml`,
      `${folder}/supabase/config.toml`,
    );
    for (const { name } of Deno.readDirSync(MIGRATIONS)) {
      if (before !== undefined && name >= before) continue;
      await Deno.copyFile(
        `${MIGRATIONS}/${name}`,
        `${folder}/supabase/migrations/${name}`,
      );
    }
    await migrateFrom(folder, databaseUrl);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Applies the migrations of a project's folder with the Supabase CLI. */
export async function migrateFrom(
  folder: string,
  databaseUrl: string,
): Promise<void> {
  await runSupabaseCli([
    "migration",
    "up",
    `--remote=${databaseUrl}?sslmode=disable`,
    "--yes",
  ], { purpose: "apply the migrations", home: folder, cwd: folder });
}
