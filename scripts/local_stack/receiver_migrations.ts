import { join } from "node:path";
import { asTyped, isFromPackage, PROJECT } from "../common/how_started.ts";

/** The receiver's migration, whatever version the project gave it. */
const OURS = /^\d+_billing\.sql$/;

/** As the Supabase CLI tells migrations from other files. */
const MIGRATION = /^\d+_.*\.sql$/;

/**
 * Returns whether the local stack applies a migration. In a clone that is each;
 * in the user's project, see {@linkcode copyReceiverMigrations}.
 */
export function isForLocalStack(file: string): boolean {
  return (isFromPackage ? OURS : MIGRATION).test(file);
}

/**
 * Copies the receiver's migration out of the user's project into a folder that
 * has nothing else for the CLI to apply: the project's own may need what the
 * local stack does not have, such as Supabase's tables of users.
 *
 * @param folder The folder to make, anew.
 * @returns the same folder
 * @throws {Error} If the project does not have the receiver's migration.
 */
export async function copyReceiverMigrations(folder: string): Promise<string> {
  const from = join(PROJECT, "supabase", "migrations");
  const names = Array.from(Deno.readDirSync(from), ({ name }) => name)
    .filter((name) => OURS.test(name));
  if (names.length === 0) {
    throw new Error(
      `Cannot start: ${from} does not have the receiver's migration. If it was squashed, use Docker and "supabase start"; else run ${
        asTyped("add .")
      }`,
    );
  }
  const supabase = join(folder, "supabase");
  await Deno.mkdir(supabase, { recursive: true });
  await Deno.remove(supabase, { recursive: true });
  await Deno.mkdir(join(supabase, "migrations"), { recursive: true });
  await Deno.writeTextFile(
    join(supabase, "config.toml"),
    'project_id = "billing-webhook"\n',
  );
  for (const name of names) {
    await Deno.copyFile(join(from, name), join(supabase, "migrations", name));
  }
  return folder;
}
