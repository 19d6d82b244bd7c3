import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import { asTyped, isFromPackage } from "../common/how_started.ts";

/** What to add the receiver to, and how. */
export interface AddArguments {
  /** As it was typed: relative to the folder that the user is in. */
  readonly folder: string;
  /** `ask` needs a terminal; `check` and `show` write nothing. */
  readonly mode: "ask" | "yes" | "show" | "check";
  /** A path below `supabase/`: this version's text replaces what is there. */
  readonly force: string | undefined;
  /** A path below `supabase/`: what is there counts as merged. */
  readonly keep: string | undefined;
}

const COMMAND_LINE = {
  usage: "add <folder>",
  summary:
    `Puts the receiver into a Supabase project that you already have, and updates it
there. Nothing of yours is overwritten.`,
  options: {
    "--yes": "do not ask",
    "--dry-run": "show what it would do, and write nothing",
    "--check":
      "for CI: exit code 1 if the project is not up to date; writes nothing",
    "--force PATH":
      "replace this file, although it was changed or is not the receiver's",
    "--keep PATH":
      "keep this file, which you changed: you have merged the update by hand",
  },
  details:
    `The folder is the one that holds supabase/. Commit your work first, so that git
shows what has changed.

Exit code: 0 if the project is up to date afterwards, and for --dry-run, 1 if
something is left for you to do first, 2 for a wrong command line.`,
} as const satisfies CommandLine;

/**
 * Parses the command line of `deno task add`.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseAddArguments(args: readonly string[]): AddArguments {
  const { values, operands } = parseCommandLine(args, COMMAND_LINE);
  const [folder, ...more] = operands;
  if (folder === undefined || more.length > 0) {
    throw new UsageError(
      `Name the folder that holds supabase/, as in "${
        asTyped(isFromPackage ? "add ." : "add ../my-app")
      }".`,
    );
  }
  const modes = (["yes", "dry-run", "check"] as const)
    .filter((name) => values[name]);
  if (modes.length > 1) {
    throw new UsageError(
      `Choose one of ${modes.map((mode) => `--${mode}`).join(" and ")}.`,
    );
  }
  const force = belowSupabase(values.force);
  const keep = belowSupabase(values.keep);
  if (values.check && (force !== undefined || keep !== undefined)) {
    throw new UsageError(
      "--check writes nothing: leave out --force and --keep.",
    );
  }
  return { folder, mode: MODES[modes[0] ?? ""], force, keep };
}

const MODES = {
  "": "ask",
  yes: "yes",
  "dry-run": "show",
  check: "check",
} as const;

/** Paths are shown with `supabase/`, and typed with or without. */
function belowSupabase(path: string | undefined): string | undefined {
  return path?.replace(/^(\.\/)?(supabase\/)?/, "");
}
