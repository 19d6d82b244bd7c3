/**
 * `deno task import`: records the subscriptions that Stripe already has. The
 * result goes to standard output, progress to standard error.
 *
 * @module
 */
import { print, printError } from "./common/print.ts";
import {
  type ImportArguments,
  parseImportArguments,
} from "./stripe_sync/import/arguments.ts";
import { importAll, noProgress } from "./stripe_sync/import/import_all.ts";
import { notImported, progressLine } from "./stripe_sync/import/report.ts";
import type { CommandContext } from "./stripe_sync/command_context.ts";
import { runCommand } from "./stripe_sync/run_command.ts";

/** Between two lines of progress. */
const PROGRESS_INTERVAL_MS = 1_000;

if (import.meta.main) {
  Deno.exit(
    await runCommand(Deno.args, {
      parse: parseImportArguments,
      work: importSubscriptions,
    }),
  );
}

async function importSubscriptions(
  target: ImportArguments,
  context: CommandContext,
): Promise<number> {
  const { accountFrom, unmappedSubscriptions } = target;
  const progress = noProgress(target.after);
  let shownAtMs = performance.now();
  function onPage() {
    if (performance.now() - shownAtMs < PROGRESS_INTERVAL_MS) return;
    shownAtMs = performance.now();
    printError(progressLine(progress));
  }

  printError(
    `Importing from Stripe (${target.mode} mode) into ${target.projectUrl} as provider ${target.provider}`,
  );
  let isComplete = false;
  try {
    await importAll(progress, { ...context, accountFrom, onPage });
    isComplete = true;
  } finally {
    print(progressLine(progress), ...notImported(progress));
    if (!isComplete && progress.after !== undefined) {
      print(
        `Not complete. To continue, run the same command with --after ${progress.after}. Starting over is safe too.`,
      );
    }
  }
  const { unmapped, failed } = progress;
  const isUnmapped = unmapped.length > 0 && unmappedSubscriptions === "fail";
  return isUnmapped || failed.length > 0 ? 1 : 0;
}
