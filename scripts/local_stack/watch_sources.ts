import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Environment } from "../common/environment.ts";
import { PROJECT } from "../common/how_started.ts";
import { checkMigrations, MIGRATIONS } from "./check_migrations.ts";
import type { Stack } from "./stack.ts";
import { tryToWatch } from "./watch_files.ts";

const FUNCTIONS = join(PROJECT, "supabase", "functions");

/** What is watched beside the files, and how the watchers tell what happens. */
export interface WatchOptions {
  /** Returns the functions' settings as they are now. */
  readonly readSettings: () => Promise<Environment>;
  /** The settings that are served. */
  readonly settings: Environment;
  /** One line, and whose it is: reload or migration. */
  readonly note: (text: string, word: string) => void;
  /** A line of a longer text, as it is. */
  readonly print: (line: string) => void;
}

/**
 * While it is not disposed of, serves each saved change of a function or of its
 * settings, and says if the migrations are not applied as they are.
 */
export function watchSources(
  stack: Pick<Stack, "reloadFunctions" | "dbUrl">,
  { settings, readSettings, note, print }: WatchOptions,
): Disposable {
  using watchers = new DisposableStack();
  let isStopped = false;
  watchers.defer(() => isStopped = true);
  let served = settings;
  let said: string | undefined;

  async function reload() {
    const beginMs = performance.now();
    let what = "code is";
    try {
      const env = await readSettings();
      if (!isDeepStrictEqual(env, served)) what = "settings are";
      await stack.reloadFunctions({
        env,
        onServed() {
          served = env;
          const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
          note(`the new ${what} served (after ${seconds} s)`, "reload");
        },
      });
    } catch (error) {
      if (isStopped) return; // it fails because the stack stops
      for (const line of (error as Error).message.split("\n")) print(line);
      note(`the old ${what} still served`, "reload");
    }
  }

  async function check() {
    try {
      const text = (await checkMigrations(stack.dbUrl))?.text;
      if (text !== undefined && text !== said) note(text, "migration");
      said = text;
    } catch (error) {
      if (isStopped) return;
      note(`cannot be checked: ${(error as Error).message}`, "migration");
    }
  }

  const onFault = (why: string) =>
    note(
      `changes are not noticed (${why}): restart start after each`,
      "reload",
    );
  watchers.use(tryToWatch(FUNCTIONS, reload, onFault));
  watchers.use(tryToWatch(MIGRATIONS, check, onFault));
  check();
  return watchers.move();
}
