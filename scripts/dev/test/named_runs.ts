import { basename } from "node:path";
import { isPgtap, type TestArguments } from "./arguments.ts";

/** One `deno test`. */
export interface Run {
  readonly name: string;
  readonly files: readonly string[];
  readonly filter?: string | undefined;
  /** The Deno that serves the functions, if it is not this one. */
  readonly denoPath?: string;
}

/** What runs if files and folders are named. */
export interface NamedRuns {
  readonly withoutStack: readonly Run[];
  readonly onStack: readonly Run[];
  /** Whether one of them needs what `deno install` does not bring. */
  readonly needsDownloads: boolean;
}

const PGTAP = "tests/pgtap.test.ts";
const UNIT_TESTS = "tests/unit";
const SQL_TESTS = "supabase/tests";
/** They serve functions with the platform's Deno, or make types. */
const NEED_DOWNLOADS = ["tests/deploy", "tests/recipes"];

/**
 * Returns what to run for the named files and folders. SQL comes first, each
 * file by itself: its tests leave nothing behind, and count on empty tables.
 */
export function namedRuns({ paths, filter }: TestArguments): NamedRuns {
  const sql = paths.filter((path) => isPgtap(path) || path === SQL_TESTS);
  const unit = paths.filter((path) => isWithin(path, UNIT_TESTS));
  const other = paths.filter((path) =>
    !sql.includes(path) && !unit.includes(path)
  );
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
    ],
    needsDownloads: other.some((path) =>
      NEED_DOWNLOADS.some((folder) =>
        isWithin(path, folder) || isWithin(folder, path)
      )
    ),
  };
}

function isWithin(path: string, folder: string): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}
