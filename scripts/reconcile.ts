/**
 * `deno task reconcile`: compares the provider with the tables, and mends what
 * differs where that is wanted. Standard output has the result alone.
 *
 * @module
 */
import { print, printError } from "./common/print.ts";
import type { CommandContext } from "./stripe_sync/command_context.ts";
import { runCommand } from "./stripe_sync/run_command.ts";
import {
  parseReconcileArguments,
  RECONCILE_USAGE,
  type ReconcileArguments,
} from "./stripe_sync/reconcile/arguments.ts";
import { applyFixes } from "./stripe_sync/reconcile/apply_fixes.ts";
import { findDifferences } from "./stripe_sync/reconcile/find_differences.ts";
import { differenceLines } from "./stripe_sync/reconcile/report.ts";

/** Between two lines of progress. */
const PROGRESS_INTERVAL_MS = 1_000;

if (import.meta.main) {
  Deno.exit(
    await runCommand(Deno.args, {
      usage: RECONCILE_USAGE,
      parse: parseReconcileArguments,
      work: reconcile,
    }),
  );
}

async function reconcile(
  target: ReconcileArguments,
  command: CommandContext,
): Promise<number> {
  const { mode, provider, projectUrl, apply, json } = target;
  const { accountFrom, unmappedSubscriptions } = target;
  let shownAtMs = performance.now();
  function onPage(compared: number) {
    if (performance.now() - shownAtMs < PROGRESS_INTERVAL_MS) return;
    shownAtMs = performance.now();
    printError(`${compared} compared`);
  }
  const context = { ...command, accountFrom, unmappedSubscriptions, onPage };
  printError(
    `Comparing Stripe's ${mode} mode with provider ${provider}'s records in ${projectUrl}`,
  );
  const found = await findDifferences(context);
  const isFixed = apply && found.differences.length > 0;
  if (isFixed && !json) print(...differenceLines(found.differences));
  const errors = isFixed
    ? await applyFixes(found, context)
    : new Map<string, string>();
  const left = isFixed ? await findDifferences(context) : found;

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
    if (isFixed) print("", "After mending:");
    for (const [id, error] of errors) {
      print(`not mended     ${id}: ${error}`);
    }
    print(...differenceLines(left.differences));
  }
  return left.differences.length === 0 ? 0 : 1;
}
