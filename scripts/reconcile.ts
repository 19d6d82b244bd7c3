/** The result goes to standard output, progress to standard error. */
import { commandLine, print, printError } from "./common/cli.ts";
import type { Surroundings } from "./common/option_values.ts";
import { applyMissed, importPages } from "./stripe_sync/apply.ts";
import {
  type Context,
  readTarget,
  runCommand,
  TARGET_ENVIRONMENT,
  TARGET_OPTIONS,
} from "./stripe_sync/command.ts";
import { differenceLines, isFault } from "./stripe_sync/differences.ts";
import { findDifferences, type Found } from "./stripe_sync/find_differences.ts";

const parse = commandLine({
  usage: "reconcile",
  summary:
    `Compares Stripe's subscriptions with the records, and the events that Stripe
could not deliver in the last 30 days with the ledger.`,
  options: {
    "--apply":
      "fix them: update records to match Stripe, unless a newer event changed them, and apply missed events; nothing is deleted",
    "--json": "print one JSON document",
    ...TARGET_OPTIONS,
  },
  environment: {
    ...TARGET_ENVIRONMENT,
    NOTIFY: "as in the receiver, for failed payments that --apply applies",
    NOTIFY_ONCE_PER_INVOICE: "as in the receiver, likewise",
  },
  exitCodes:
    "0 if nothing differs (with --apply: any more), 1 if something does, 3 if the comparison could not finish, 130 if it was interrupted",
});

if (import.meta.main) {
  await runCommand(parseReconcileArguments, reconcile);
}

export function parseReconcileArguments(
  args: readonly string[],
  here: Surroundings,
) {
  const { values } = parse(args);
  const { apply = false, json = false } = values;
  return { ...readTarget(values, here), apply, json };
}

async function reconcile(
  context: Context & ReturnType<typeof parseReconcileArguments>,
): Promise<number> {
  const { mode, provider, projectUrl, apply, json } = context;
  printError(
    `Comparing Stripe (${mode} mode) with ${projectUrl}, provider ${provider}`,
  );

  const found = await findDifferences(context);
  const isFixing = apply && found.differences.some(isFault);
  if (isFixing && !json) {
    print(...differenceLines(found.differences, { apply }));
  }

  const errors = isFixing ? await fix(found, context) : new Map();
  const left = isFixing ? await findDifferences(context) : found;

  if (json) {
    print(JSON.stringify({
      mode,
      provider,
      project_url: projectUrl,
      applied: apply,
      found: found.differences,
      errors: Object.fromEntries(errors),
      differences: left.differences,
    }));
  } else {
    if (isFixing) print("", "After --apply:");
    for (const [id, error] of errors) print(`not fixed      ${id}: ${error}`);
    print(...differenceLines(left.differences, { apply }));
  }

  return left.differences.some(isFault) ? 1 : 0;
}

/**
 * Fixes the records first, so that missed events find them, and failed payments the
 * right account. A missed update is then older, and only sets `past_due_since`.
 *
 * @returns the errors, by the ID of the subscription or event.
 */
export async function fix(
  { doubtful, listed, undelivered }: Found,
  context: Context,
): Promise<Map<string, string>> {
  const pages = context.stripe.someSubscriptions(doubtful, listed);
  const { errors } = await importPages(pages, context);
  return new Map([...errors, ...await applyMissed(undelivered, context)]);
}
