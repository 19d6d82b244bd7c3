import { relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { UsageError } from "../../common/checked.ts";
import { closest } from "./closest.ts";

/** What `test --help` prints. */
export const TEST_USAGE = `Runs the tests, on real Postgres and PostgREST.

Usage: deno task test [options] [files and folders]

Without files and folders: formatting, lint, types and all tests. With them,
their tests alone: *.test.ts, or supabase/tests/*.test.sql for pgTAP. Those of
tests/unit need no database and start none.

Options:
  --filter TEXT        only tests whose names contain this; /.../ is a regular
                       expression
  --help               this text

The exit status is 0 if tests ran and all passed, 1 if one failed or a file or
folder has no test to run, 2 for a wrong command line.
`;

/** What the command line asks for. */
export interface TestArguments {
  /** Relative to the repository; none for the whole gate. */
  readonly paths: readonly string[];
  readonly filter: string | undefined;
}

/**
 * Parses the command line of `deno task test`.
 *
 * @param root The repository, where paths begin.
 * @returns null if help was asked for
 * @throws {UsageError} Where an option is unknown, or a path is not there.
 */
export function parseTestArguments(
  args: string[],
  { root }: { root: string },
): TestArguments | null {
  const { values, positionals } = parse(args);
  if (values.help) return null;
  const paths = positionals.map((path) => checkedPath(path, { root }));
  if (values.filter === undefined) return { paths, filter: undefined };
  if (paths.length === 0 || paths.some((path) => isPgtap(path))) {
    throw new UsageError("--filter needs files or folders of TypeScript.");
  }
  return { paths, filter: values.filter };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        filter: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
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
      `${path} is not a test: those in SQL are supabase/tests/*.test.sql.`,
    );
  }
  return inRepository;
}

/** Whether a path is a test in SQL, relative to the repository. */
export function isPgtap(path: string): boolean {
  return /^supabase\/tests\/[^/]+\.test\.sql$/.test(path);
}

/** Returns the files and folders that can be named. */
function testPaths(root: string): string[] {
  return ["tests", "supabase/tests"].flatMap((folder) => [
    folder,
    ...pathsBelow(root, folder),
  ]).filter((path) => /\.test\.(ts|sql)$|^[^.]+$/.test(path));
}

function pathsBelow(root: string, folder: string): string[] {
  return Array.from(Deno.readDirSync(resolve(root, folder)))
    .flatMap(({ name, isDirectory }) => {
      const path = `${folder}/${name}`;
      return isDirectory ? [path, ...pathsBelow(root, path)] : [path];
    });
}
