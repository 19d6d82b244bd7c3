/**
 * `deno task reconcile`: compares the provider with the tables, and mends what
 * differs where that is wanted. Standard output has the result alone.
 *
 * @module
 */
import { print, printError } from "./common/print.ts";
import { runCommand, type Workplace } from "./stripe_sync/run_command.ts";
import {
  parseReconcileArguments,
  type ReconcileArguments,
} from "./stripe_sync/reconcile/arguments.ts";
import { examine } from "./stripe_sync/reconcile/examine.ts";
import { findingLines } from "./stripe_sync/reconcile/finding.ts";
import { heal } from "./stripe_sync/reconcile/heal.ts";

/** Between two lines on how far it has come, in milliseconds. */
const PROGRESS_INTERVAL = 1_000;

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
  place: Workplace,
): Promise<number> {
  const { mode, provider, projectUrl, apply, json } = target;
  const { accountFrom, unmappedSubscriptions } = target;
  let shownAt = performance.now();
  function onPage(compared: number) {
    if (performance.now() - shownAt < PROGRESS_INTERVAL) return;
    shownAt = performance.now();
    printError(`${compared} compared`);
  }
  const scope = { ...place, accountFrom, unmappedSubscriptions, onPage };
  printError(
    `Comparing Stripe's ${mode} mode with provider ${provider}'s records in ${projectUrl}`,
  );
  const found = await examine(scope);
  const isMended = apply && found.findings.length > 0;
  if (isMended && !json) print(...findingLines(found.findings));
  const errors = isMended
    ? await heal(found, scope)
    : new Map<string, string>();
  const left = isMended ? await examine(scope) : found;

  if (json) {
    print(JSON.stringify({
      mode,
      provider,
      project_url: projectUrl,
      applied: apply,
      found: found.findings,
      errors: Object.fromEntries(errors),
      differences: left.findings,
    }));
  } else {
    if (isMended) print("", "After mending:");
    for (const [id, error] of errors) {
      print(`not mended     ${id}: ${error}`);
    }
    print(...findingLines(left.findings));
  }
  return left.findings.length === 0 ? 0 : 1;
}
