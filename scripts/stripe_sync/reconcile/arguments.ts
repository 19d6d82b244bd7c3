import { parseArgs } from "node:util";
import {
  type CommandSurroundings,
  readTarget,
  type Target,
  TARGET_OPTIONS,
} from "../arguments.ts";
import { TARGET_USAGE } from "../usage.ts";
import { UsageError } from "../../common/checked.ts";

/** What to compare, and what to do about it. */
export interface ReconcileArguments extends Target {
  /** Whether to mend what is found. */
  readonly apply: boolean;
  /** Whether to answer in JSON. */
  readonly json: boolean;
}

/** What `--help` and a wrong command line print. */
export const RECONCILE_USAGE =
  `Compares Stripe's subscriptions with the records, and the events that Stripe
could not deliver in the last 30 days with the ledger.

Usage: deno task reconcile [options]

Options:
  --dry-run            only say what differs (the default)
  --apply              mend it: the records become as Stripe has them, unless an
                       event has told something newer, and what was not delivered
                       is applied; nothing is deleted
  --json               one JSON document on standard output
${TARGET_USAGE}

The exit status is 0 where nothing differs (with --apply: any more), 1 where
something does, 2 for a wrong command line, 3 where it could not look, 130
where it was interrupted.
`;

/**
 * Parses the command line of `deno task reconcile`.
 *
 * @returns null where help was asked for
 * @throws {UsageError}
 */
export function parseReconcileArguments(
  args: string[],
  here: CommandSurroundings,
): ReconcileArguments | null {
  const values = parse(args);
  if (values.help) return null;
  const { apply, json } = values;
  if (apply && values["dry-run"]) {
    throw new UsageError("Either --dry-run or --apply, not both.");
  }
  return { ...readTarget(values, here), apply, json };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        ...TARGET_OPTIONS,
        "dry-run": { type: "boolean", default: false },
        apply: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
