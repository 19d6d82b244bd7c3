import { runSupabaseCli } from "../common/supabase_cli.ts";

/**
 * Applies the migrations that a database has not had yet, with the Supabase
 * CLI itself, as the role `postgres`.
 *
 * @param databaseUrl the database, with user and password
 * @param options.cliHome a folder for what the CLI writes down for itself
 * @throws with the CLI's output, if one does not apply
 */
export async function applyMigrations(
  databaseUrl: string,
  options: { cliHome: string; signal?: AbortSignal | undefined },
): Promise<void> {
  await runSupabaseCli([
    "migration",
    "up",
    // One that is older than the last applied, from another branch, too.
    "--include-all",
    `--remote=${databaseUrl}?sslmode=disable`,
    "--yes",
  ], {
    purpose: "apply the migrations",
    home: options.cliHome,
    signal: options.signal,
  });
}
