import { join } from "node:path";
import { PROJECT } from "../common/how_started.ts";
import { checkMigrations, MIGRATIONS } from "./check_migrations.ts";
import type { Stack } from "./start_stack.ts";
import { watchFiles } from "./watch_files.ts";

const FUNCTIONS = join(PROJECT, "supabase", "functions");

/** How the watchers tell what happens. */
export interface Told {
  /** One line, and whose it is: reload or migration. */
  readonly note: (text: string, word: string) => void;
  /** A line of a longer text, as it is. */
  readonly print: (line: string) => void;
}

/**
 * While it is not disposed of, serves each saved change of a function, and says
 * which migrations are not applied as they are.
 */
export function watchSources(
  stack: Pick<Stack, "reloadFunctions" | "dbUrl">,
  { note, print }: Told,
): Disposable {
  using watchers = new DisposableStack();
  let isStopped = false;
  watchers.defer(() => isStopped = true);
  let said: readonly string[] = [];

  async function reload() {
    const beginMs = performance.now();
    function onServed() {
      const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
      note(`the new code is served (after ${seconds} s)`, "reload");
    }
    try {
      await stack.reloadFunctions({ onServed });
    } catch (error) {
      if (isStopped) return; // it fails because the stack stops
      for (const line of (error as Error).message.split("\n")) print(line);
      note("the old code is still served", "reload");
    }
  }

  async function check() {
    try {
      const findings = await checkMigrations(stack.dbUrl);
      const lines = findings.map(({ text }) => text);
      for (const line of lines) {
        if (!said.includes(line)) note(line, "migration");
      }
      said = lines;
    } catch (error) {
      if (isStopped) return;
      note(`cannot be checked: ${(error as Error).message}`, "migration");
    }
  }

  watchers.use(watchFiles(FUNCTIONS, reload));
  watchers.use(watchFiles(MIGRATIONS, check));
  check();
  return watchers.move();
}
