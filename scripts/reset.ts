/**
 * `deno task reset`: deletes the local data. It has the options of
 * `deno task start`, and uses `--data` and `BILLING_STACK_DATA` only.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { reportEnd } from "./common/cli.ts";
import { defaultStateFolder } from "./common/default_state_folder.ts";
import { endLeftoverPostgres } from "./local_stack/postgres.ts";
import { parseStartArguments, RESET } from "./local_stack/start_arguments.ts";
import {
  emptyStateFolder,
  openStateFolder,
} from "./local_stack/state_folder.ts";

if (import.meta.main) {
  Deno.exit(
    await reset(Deno.args).catch((error) =>
      // What Postgres prints has several lines.
      reportEnd(error, { err: console.error })
    ),
  );
}

async function reset(args: readonly string[]): Promise<number> {
  const { dataDir } = parseStartArguments(args, Deno.env.toObject(), RESET);
  const path = dataDir ?? await defaultStateFolder();
  if (!existsSync(path)) {
    console.log(`There is no data in ${path}`);
    return 0;
  }
  const folder = await openStateFolder(path);
  await endLeftoverPostgres(folder.database, { onProgress: console.log });
  await emptyStateFolder(folder);
  console.log(`Emptied ${path}`);
  return 0;
}
