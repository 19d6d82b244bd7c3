/**
 * `deno task import`: records the subscriptions that Stripe already has. The
 * result goes to standard output, progress to standard error.
 *
 * @module
 */
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "./common/cli.ts";
import { print, printError } from "./common/print.ts";
import type { Surroundings } from "./common/option_values.ts";
import {
  readTarget,
  TARGET_ENVIRONMENT,
  TARGET_OPTIONS,
} from "./stripe_sync/arguments.ts";
import { importPages, noProgress, progressLine } from "./stripe_sync/apply.ts";
import { type Context, runCommand } from "./stripe_sync/context.ts";
import { adviceLines, differenceLine } from "./stripe_sync/differences.ts";

const COMMAND_LINE = {
  usage: "import",
  summary:
    `Imports the subscriptions that already exist at Stripe, as if their events had
arrived. You can run it again at any time: a record that matches Stripe stays
as it is, and a different one is corrected unless a newer event changed it.`,
  options: {
    "--after ID":
      "continue after this subscription; an interrupted import prints the ID",
    ...TARGET_OPTIONS,
  },
  environment: TARGET_ENVIRONMENT,
  details:
    `Exit code: 0 if every subscription is recorded, 1 if one is not, 2 for a wrong
command line, 3 if the import could not finish, 130 if it was interrupted. With
--after it counts the remaining subscriptions only.`,
} as const satisfies CommandLine;

if (import.meta.main) {
  await runCommand(parseImportArguments, importSubscriptions);
}

/**
 * Parses the command line of `deno task import`.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseImportArguments(
  args: readonly string[],
  here: Surroundings,
) {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  if (values.after?.trim() === "") {
    throw new UsageError("--after takes the ID of a subscription.");
  }
  return { ...readTarget(values, here), after: values.after };
}

async function importSubscriptions(
  context: Context & ReturnType<typeof parseImportArguments>,
): Promise<number> {
  const { mode, projectUrl, provider, unmappedSubscriptions } = context;
  printError(
    `Importing from Stripe (${mode} mode) into ${projectUrl} as provider ${provider}`,
  );
  const progress = noProgress(context.after);
  let isComplete = false;
  try {
    const pages = context.stripe.subscriptions(context.after);
    await importPages(pages, progress, context);
    isComplete = true;
  } finally {
    const { unmapped, errors } = progress;
    print(...unmapped.map(differenceLine));
    for (const [id, error] of errors) print(`not imported   ${id}: ${error}`);
    print(progressLine(progress), ...adviceLines(unmapped));
    if (!isComplete && progress.after !== undefined) {
      print(
        `Not complete. To continue, run the same command with --after ${progress.after}. Starting over is safe too.`,
      );
    }
  }
  const { unmapped, errors } = progress;
  const isUnmapped = unmapped.length > 0 && unmappedSubscriptions === "fail";
  return isUnmapped || errors.size > 0 ? 1 : 0;
}
