/**
 * `deno task import`: records the subscriptions that the provider already has.
 * Standard output has the result, standard error how far it has come.
 *
 * @module
 */
import { print, printError } from "./common/print.ts";
import {
  type ImportArguments,
  parseImportArguments,
} from "./stripe_sync/import/arguments.ts";
import { importAll, noProgress } from "./stripe_sync/import/import_all.ts";
import { leftOver, progressLine } from "./stripe_sync/import/report.ts";
import { runCommand, type Workplace } from "./stripe_sync/run_command.ts";

/** Between two lines on how far it has come, in milliseconds. */
const PROGRESS_INTERVAL = 1_000;

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
  place: Workplace,
): Promise<number> {
  const { accountFrom, unmappedSubscriptions } = target;
  const progress = noProgress(target.after);
  let shownAt = performance.now();
  function onPage() {
    if (performance.now() - shownAt < PROGRESS_INTERVAL) return;
    shownAt = performance.now();
    printError(progressLine(progress));
  }

  printError(
    `Importing the subscriptions of Stripe's ${target.mode} mode as provider ${target.provider}'s into ${target.projectUrl}`,
  );
  let isComplete = false;
  try {
    await importAll(progress, { ...place, accountFrom, onPage });
    isComplete = true;
  } finally {
    print(progressLine(progress), ...leftOver(progress));
    if (!isComplete && progress.after !== undefined) {
      print(
        `To go on from here: deno task import --after ${progress.after}, with the same options. To begin again does no harm.`,
      );
    }
  }
  const { unmapped, failed } = progress;
  const isUnmapped = unmapped.length > 0 && unmappedSubscriptions === "fail";
  return isUnmapped || failed.length > 0 ? 1 : 0;
}
