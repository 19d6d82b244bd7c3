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

/** What to import. */
export interface ImportArguments extends Target {
  /** A subscription's ID: import only older ones. */
  readonly after: string | undefined;
}

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

/**
 * Parses the command line of `deno task import`.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseImportArguments(
  args: readonly string[],
  here: CommandSurroundings,
): ImportArguments {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  if (values.after?.trim() === "") {
    throw new UsageError("--after takes the ID of a subscription.");
  }
  return { ...readTarget(values, here), after: values.after };
}
