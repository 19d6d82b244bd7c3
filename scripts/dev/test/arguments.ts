import { readdirSync } from "node:fs";
import { relative, resolve } from "node:path";
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../../common/cli.ts";
import { closest } from "../../common/closest.ts";

const COMMAND_LINE = {
  usage: "test [files and folders]",
  summary: `Runs the tests, on real Postgres and PostgREST.

Without files and folders: formatting, lint, types and all tests. With them,
only their tests: *.test.ts, or supabase/tests/*.test.sql for pgTAP. Those in
tests/unit need no database and start none.`,
  options: {
    "--filter TEXT":
      "only tests whose names contain this text; /.../ is a regular expression",
  },
  details:
    `Exit code: 0 if tests ran and all passed, 1 if one failed or a file or folder
has no test to run, 2 for a wrong command line, 130 if it was interrupted.`,
} as const satisfies CommandLine;

/** What the command line asks for. */
export interface TestArguments {
  /** Relative to the repository; none for the whole gate. */
  readonly paths: readonly string[];
  readonly filter: string | undefined;
}

/**
 * Parses the command line of `deno task test`.
 *
 * @param root The repository, to which paths are relative.
 * @throws {HelpRequest}
 * @throws {UsageError} If an option is unknown, or a path does not exist.
 */
export function parseTestArguments(
  args: readonly string[],
  { root }: { root: string },
): TestArguments {
  const { values, operands } = parseCommandLine(args, COMMAND_LINE);
  const paths = operands.map((path) => checkedPath(path, { root }));
  if (values.filter === undefined) return { paths, filter: undefined };
  if (paths.length === 0 || paths.some((path) => isPgtap(path))) {
    throw new UsageError(
      "--filter needs files or folders with tests in TypeScript.",
    );
  }
  return { paths, filter: values.filter };
}

function checkedPath(path: string, { root }: { root: string }): string {
  const absolute = resolve(root, path);
  const inRepository = relative(root, absolute);
  try {
    Deno.statSync(absolute);
  } catch {
    const near = closest(inRepository, testPaths(root));
    throw new UsageError(
      `${path} does not exist.` + (near ? ` Did you mean ${near}?` : ""),
    );
  }
  if (path.endsWith(".sql") && !isPgtap(inRepository)) {
    throw new UsageError(
      `${path} is not a test. Tests in SQL are supabase/tests/*.test.sql.`,
    );
  }
  return inRepository;
}

/** Returns whether a path, relative to the repository, is a test in SQL. */
export function isPgtap(path: string): boolean {
  return /^supabase\/tests\/[^/]+\.test\.sql$/.test(path);
}

/** Returns the files and folders that can be named. */
function testPaths(root: string): string[] {
  return ["tests", "supabase/tests"].flatMap((folder) => [
    folder,
    ...readdirSync(resolve(root, folder), { recursive: true })
      .map((path) => `${folder}/${path}`),
  ]).filter((path) => /\.test\.(ts|sql)$|^[^.]+$/.test(path));
}
