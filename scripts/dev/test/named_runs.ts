import { basename } from "node:path";
import { isPgtap, type TestArguments } from "./arguments.ts";
import { BROWSER_FOLDER, BROWSER_OPTIONS } from "./browser_tests.ts";

/** One `deno test`. */
export interface Run {
  readonly name: string;
  readonly files: readonly string[];
  readonly filter?: string | undefined;
  /** Of `deno test`, besides those of every run. */
  readonly options?: readonly string[];
  /** The Deno that serves the functions, if it is not this one. */
  readonly denoPath?: string;
}

/** All tests in a browser. */
export const BROWSER_TESTS: Run = {
  name: "console in a browser",
  files: [BROWSER_FOLDER],
  options: [...BROWSER_OPTIONS, "--frozen"],
};

/** What runs if files and folders are named. */
export interface NamedRuns {
  readonly withoutStack: readonly Run[];
  readonly onStack: readonly Run[];
  /** Whether one of them needs what `deno install` does not bring. */
  readonly needsDownloads: boolean;
  /** Whether one of them needs a browser. */
  readonly needsBrowser: boolean;
}

const PGTAP = "tests/pgtap.test.ts";
const UNIT_TESTS = "tests/unit";
const SQL_TESTS = "supabase/tests";
/** They serve functions with the platform's Deno, or make types. */
const NEED_DOWNLOADS = ["tests/deploy"];

/**
 * Returns what to run for the named files and folders. SQL comes first, each
 * file by itself: its tests leave nothing behind, and count on empty tables.
 */
export function namedRuns({ paths, filter }: TestArguments): NamedRuns {
  const sql = paths.filter((path) => isPgtap(path) || path === SQL_TESTS);
  const unit = paths.filter((path) => isWithin(path, UNIT_TESTS));
  const inBrowser = paths.filter((path) => isWithin(path, BROWSER_FOLDER));
  const other = paths.filter((path) =>
    ![sql, unit, inBrowser].some((some) => some.includes(path))
  );
  // deno.json keeps them out of other runs. A filter is hardly meant for them.
  const isInAll = filter === undefined &&
    other.some((path) => isWithin(BROWSER_FOLDER, path));
  const browserFiles = isInAll ? [BROWSER_FOLDER] : inBrowser;
  return {
    withoutStack: unit.length > 0
      ? [{ name: "unit tests", files: unit, filter }]
      : [],
    onStack: [
      ...sql.map((path) => ({
        name: path,
        files: [PGTAP],
        // Of the tests in it, those of this file.
        filter: path === SQL_TESTS
          ? filter
          : `/^${basename(path).replaceAll(".", "\\.")} passes /`,
      })),
      ...(other.length > 0 ? [{ name: "tests", files: other, filter }] : []),
      ...(browserFiles.length > 0
        ? [{ ...BROWSER_TESTS, files: browserFiles, filter }]
        : []),
    ],
    needsDownloads: other.some((path) =>
      NEED_DOWNLOADS.some((folder) =>
        isWithin(path, folder) || isWithin(folder, path)
      )
    ),
    needsBrowser: browserFiles.length > 0,
  };
}

function isWithin(path: string, folder: string): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}
