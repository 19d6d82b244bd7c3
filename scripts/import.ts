/** The result goes to standard output, progress to standard error. */
import { commandLine, print, printError } from "./common/cli.ts";
import { importPages } from "./stripe_sync/apply.ts";
import {
  type Context,
  readTarget,
  runCommand,
  type Target,
  TARGET_ENVIRONMENT,
  TARGET_OPTIONS,
} from "./stripe_sync/command.ts";
import { adviceLines, differenceLine } from "./stripe_sync/differences.ts";

const parse = commandLine({
  usage: "import",
  summary:
    `Imports the subscriptions that already exist at Stripe, as if their events had
arrived. You can run it again at any time: a record that matches Stripe stays
as it is, and a different one is corrected unless a newer event changed it.`,
  options: TARGET_OPTIONS,
  environment: TARGET_ENVIRONMENT,
  exitCodes:
    "0 if every subscription is recorded, 1 if one is not, 3 if the import could not finish, 130 if it was interrupted",
});

if (import.meta.main) {
  await runCommand(
    (args, here) => readTarget(parse(args).values, here),
    importSubscriptions,
  );
}

async function importSubscriptions(context: Context & Target): Promise<number> {
  const { mode, projectUrl, provider, unmappedSubscriptions, stripe } = context;
  printError(
    `Importing from Stripe (${mode} mode) into ${projectUrl} as provider ${provider}`,
  );

  const pages = stripe.subscriptions();
  const { read, different, errors } = await importPages(pages, context);

  // Each subscription is counted once: a failed one only as failed.
  for (const id of errors.keys()) different.delete(id);
  const { unmapped = [], erased = [], missing_here = [], differs = [] } = Object
    .groupBy(different.values(), ({ kind }) => kind);

  print(...[...unmapped, ...erased].map(differenceLine));
  for (const [id, error] of errors) print(`not imported   ${id}: ${error}`);

  const isUnmapped = unmapped.length > 0 && unmappedSubscriptions === "fail";
  print(
    `${read} read, ${missing_here.length} imported, ${differs.length} corrected, ${unmapped.length} without an account ID, ${errors.size} failed`,
    ...(isUnmapped ? adviceLines(unmapped) : []),
  );
  return isUnmapped || errors.size > 0 ? 1 : 0;
}
