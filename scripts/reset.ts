/**
 * `deno task reset`: empties the local data. It takes the `--data` and
 * `BILLING_STACK_DATA` of `deno task start`.
 *
 * @module
 */
import { endLeftoverPostgres } from "./local_stack/postgres.ts";
import { existsSync } from "node:fs";
import {
  parseStartArguments,
  RESET_USAGE,
} from "./local_stack/start_arguments.ts";
import {
  defaultStateFolder,
  emptyStateFolder,
  openStateFolder,
} from "./local_stack/state_folder.ts";

if (import.meta.main) {
  try {
    await reset();
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}

async function reset(): Promise<void> {
  const wanted = parseStartArguments(Deno.args, Deno.env.toObject());
  if (wanted.help) return console.log(RESET_USAGE);
  const path = wanted.dataDir ?? await defaultStateFolder();
  if (!existsSync(path)) return console.log(`Nothing is kept in ${path}`);
  const folder = await openStateFolder(path);
  await endLeftoverPostgres(folder.database, { onProgress: console.log });
  await emptyStateFolder(folder);
  console.log(`Emptied ${path}`);
}
