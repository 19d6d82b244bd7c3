import { createCommand } from "../../scripts/common/create_command.ts";
import {
  createMigratedDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
} from "./create_database.ts";
import { startStack } from "../../scripts/local_stack/stack.ts";

/** A database whose migrations met the default privileges of older projects. */
export const LEGACY_DATABASE = "legacy_default_privileges";

/**
 * Makes a state folder with what each stack of the tests begins with: Postgres,
 * its databases and all migrations. To copy it takes a fraction of the time.
 *
 * @param folder A new folder. No stack runs in it afterwards.
 */
export async function makeStackTemplate(
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  await using stack = await startStack({
    dataDir: folder,
    functions: false,
    fsync: false,
    signal,
    onProgress: (text) => console.log(`stack: ${text}`),
  });
  await createMigratedDatabase(stack.ports.db, {
    name: LEGACY_DATABASE,
    sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL,
  });
}

/** Copies a template into a new folder, for {@linkcode startStack}. */
export async function copyStackTemplate(
  template: string,
  folder: string,
): Promise<void> {
  // It keeps the accounts: Postgres may run as another one.
  const { success, stderr } = await createCommand("cp", {
    args: ["-a", `${template}/.`, folder],
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
