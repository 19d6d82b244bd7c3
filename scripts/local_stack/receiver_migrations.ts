import { join } from "node:path";
import { asTyped, isFromPackage, PROJECT } from "../common/how_started.ts";

/** A migration of the receiver's, whatever version the project gave it. */
const OURS = /^\d+_billing_\d{4}_.*\.sql$/;

/**
 * Returns whether the local stack applies a migration. In a clone that is each;
 * in the user's project, see {@linkcode copyReceiverMigrations}.
 */
export function isForLocalStack(file: string): boolean {
  return !isFromPackage || OURS.test(file);
}

/**
 * Copies the receiver's migrations out of the user's project into a folder that
 * has nothing else for the CLI to apply: the project's own may need what the
 * local stack does not have, such as Supabase's tables of users.
 *
 * @param folder The folder to make, anew.
 * @returns the same folder
 * @throws {Error} If the project has no migrations of the receiver's.
 */
export async function copyReceiverMigrations(folder: string): Promise<string> {
  const from = join(PROJECT, "supabase", "migrations");
  const names = Array.from(Deno.readDirSync(from), ({ name }) => name)
    .filter((name) => OURS.test(name));
  if (names.length === 0) {
    throw new Error(
      `Cannot start: ${from} has no migrations of the receiver. If they were squashed, use Docker and "supabase start"; else run ${
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
