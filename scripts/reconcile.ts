/**
 * `deno task reconcile`: shows what differs from Stripe; `--apply` fixes it. The
 * result goes to standard output, progress to standard error.
 *
 * @module
 */
import { print, printError } from "./common/print.ts";
import type { CommandContext } from "./stripe_sync/command_context.ts";
import { runCommand } from "./stripe_sync/run_command.ts";
import {
  parseReconcileArguments,
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
    printError(`${compared} subscriptions compared`);
  }
  const context = { ...command, accountFrom, unmappedSubscriptions, onPage };
  printError(
    `Comparing Stripe (${mode} mode) with ${projectUrl}, provider ${provider}`,
  );
  const found = await findDifferences(context);
  const isFixed = apply && found.differences.length > 0;
  if (isFixed && !json) print(...differenceLines(found.differences, { apply }));
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
    if (isFixed) print("", "After --apply:");
    for (const [id, error] of errors) {
      print(`not fixed      ${id}: ${error}`);
    }
    print(...differenceLines(left.differences, { apply }));
  }
  return left.differences.length === 0 ? 0 : 1;
}
