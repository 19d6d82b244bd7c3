import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../../common/cli.ts";
import {
  type CommandSurroundings,
  readTarget,
  type Target,
  TARGET_ENVIRONMENT,
  TARGET_OPTIONS,
} from "../arguments.ts";

/** What to compare, and what to do with the differences. */
export interface ReconcileArguments extends Target {
  /** Whether to fix the differences. */
  readonly apply: boolean;
  /** Whether to print JSON. */
  readonly json: boolean;
}

const COMMAND_LINE = {
  usage: "reconcile",
  summary:
    `Compares Stripe's subscriptions with the records, and the events that Stripe
could not deliver in the last 30 days with the ledger.`,
  options: {
    "--dry-run": "only show differences (the default)",
    "--apply":
      "fix them: update records to match Stripe, unless a newer event changed them, and apply missed events; nothing is deleted",
    "--json": "print one JSON document",
    ...TARGET_OPTIONS,
  },
  environment: TARGET_ENVIRONMENT,
  details:
    `Exit code: 0 if nothing differs (with --apply: if nothing differs any more), 1
if something differs, 2 for a wrong command line, 3 if the comparison could not
finish, 130 if it was interrupted.`,
} as const satisfies CommandLine;

/**
 * Parses the command line of `deno task reconcile`.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseReconcileArguments(
  args: readonly string[],
  here: CommandSurroundings,
): ReconcileArguments {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  const { apply = false, json = false } = values;
  if (apply && values["dry-run"]) {
    throw new UsageError("Use either --dry-run or --apply, not both.");
  }
  return { ...readTarget(values, here), apply, json };
}
