import { parseArgs } from "node:util";
import {
  type CommandSurroundings,
  readTarget,
  type Target,
  TARGET_OPTIONS,
} from "../arguments.ts";
import { TARGET_USAGE } from "../usage.ts";
import { UsageError } from "../../common/checked.ts";

/** What to import, and from where on. */
export interface ImportArguments extends Target {
  /** A subscription's id: only those that are older. */
  readonly after: string | undefined;
}

/** What `--help` and a wrong command line print. */
export const IMPORT_USAGE =
  `Records the subscriptions that Stripe already has, as events would have.
It may run again, at any time: what is recorded already stays as it is, and what
differs becomes as Stripe has it, unless an event has told something newer.

Usage: deno task import [options]

Options:
  --after ID           go on behind this subscription: an import that was
                       interrupted says which
${TARGET_USAGE}

The exit status is 0 where every subscription is recorded, 1 where one is not,
2 for a wrong command line, 3 where it could not go on, 130 where it was
interrupted. After --after it tells of the rest alone.
`;

/**
 * Parses the command line of `deno task import`.
 *
 * @returns null where help was asked for
 * @throws {UsageError}
 */
export function parseImportArguments(
  args: string[],
  here: CommandSurroundings,
): ImportArguments | null {
  const values = parse(args);
  if (values.help) return null;
  if (values.after?.trim() === "") {
    throw new UsageError("--after takes the id of a subscription");
  }
  return { ...readTarget(values, here), after: values.after };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: { ...TARGET_OPTIONS, after: { type: "string" } },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
