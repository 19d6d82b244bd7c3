/** What `add` and `remove` share: the command line, the question, and lists. */
import { join } from "node:path";
import {
  type CommandLine,
  commandLine,
  FaultInLines,
  print,
  UsageError,
  wrap,
} from "../common/cli.ts";
import { asTyped, isFromPackage } from "../common/environment.ts";
import { type Change, writeChanges } from "./changes.ts";
import { ignoredFiles, requireCleanTree } from "./git.ts";
import { findProject } from "./project.ts";

export async function parseFolder(args: readonly string[], line: CommandLine) {
  const { values, operands } = commandLine(line)(args);
  const [folder, ...more] = operands;
  if (folder === undefined || more.length > 0) {
    const [name] = line.usage.split(" ");
    const example = asTyped(`${name} ${isFromPackage ? "." : "../my-app"}`);
    throw new UsageError(
      `Name the folder that holds supabase/, as in "${example}".`,
    );
  }

  const [mode = "ask", ...others] = Object.keys(values);
  if (others.length > 0) {
    throw new UsageError(`Choose one of --${mode} and --${others[0]}.`);
  }
  // `deno task` and npm run in the repository, and name the user's own folder.
  const from = Deno.env.get("INIT_CWD") || Deno.cwd();
  return { path: await findProject(folder, from), mode };
}

/** Returns whether the changes were wanted, and written. */
export async function carryOut(
  path: string,
  mode: string,
  { changes, changed, blockers }: {
    readonly changes: readonly Change[];
    /** What happens to files that the user has changed. */
    readonly changed: readonly string[];
    readonly blockers: readonly string[];
  },
): Promise<boolean> {
  const files = changes.map(({ path }) => `supabase/${path}`);
  const reasons = [...blockers, ...await ignoredFiles(path, files)];
  if (reasons.length > 0) {
    const lines = ["Nothing was written.", ...linesOf(reasons)];
    throw new FaultInLines(lines.join("\n"));
  }

  if (changes.length > 0) print(`In ${path}:`);
  print(...changes.map(({ verb, path }) => `  ${verb} supabase/${path}`));
  print(...changed.map((line) => `  ${line}`));
  if (changes.length === 0 || !["ask", "yes"].includes(mode)) return false;
  await requireCleanTree(path);
  if (mode === "ask" && !mayWrite()) return false;
  await requireCleanTree(path); // An editor may have saved a file meanwhile.
  await writeChanges(join(path, "supabase"), changes);
  return true;
}

function mayWrite(): boolean {
  if (Deno.stdin.isTerminal()) return confirm("Write this?");
  throw new UsageError("There is no terminal to ask: add --yes or --dry-run.");
}

export function linesOf(paragraphs: readonly string[]): string[] {
  return paragraphs.flatMap((text) => {
    const [prose = "", ...copied] = text.split("\n");
    const [first, ...more] = wrap(prose, 78);
    return [`- ${first}`, ...more.map((line) => `  ${line}`), ...copied];
  });
}
