/**
 * Which migrations a project lacks, and under which versions it gets them. The
 * CLI knows a migration by its version alone, the digits of its file's name, and
 * applies versions in the order of text. A file that sorts before one that is
 * applied needs `--include-all`, so new files come behind all others, and before
 * now: what the user makes next with "supabase migration new" comes behind them.
 *
 * @module
 */
import { fingerprint } from "./files.ts";
import type { Project } from "./project.ts";
import type { Receiver } from "./receiver.ts";

/** What to do with a project's migrations. Paths are below `supabase/`. */
export interface MigrationPlan {
  /** The texts of the missing ones, by the paths that they get. */
  readonly added: ReadonlyMap<string, string>;
  /** Fingerprints of all that the project has or had, for the manifest. */
  readonly recorded: Readonly<Record<string, string>>;
}

/**
 * Plans a project's migrations. One that it has is never changed, and one that it
 * had, before it squashed its migrations, is not added again.
 *
 * @throws {Error} If the project's numbers leave no room for another.
 */
export function planMigrations(
  { migrations }: Receiver,
  { sql, manifest }: Project,
  nowMs: number,
): MigrationPlan {
  const added = new Map<string, string>();
  const recorded: Record<string, string> = {};
  const versions = [...sql.keys()]
    .flatMap((path) => /^migrations\/(\d+)_[^/]*\.sql$/.exec(path)?.[1] ?? []);
  let newest = versions.sort().at(-1) ?? "";
  let left = migrations.size;
  for (const [suffix, text] of migrations) {
    const hasName = (path: string) =>
      path.replace(/^migrations\/\d+/, "") === suffix;
    const had = Object.keys(manifest.files).filter(hasName);
    // The project may have a migration of its own with this name.
    const [first] = [...sql.keys()].filter((path) =>
      hasName(path) &&
      (had.includes(path) || fingerprint(sql.get(path)!) === fingerprint(text))
    ).sort();
    const path = first ?? had[0];
    if (path !== undefined) {
      recorded[path] = manifest.files[path] ?? fingerprint(text);
    } else {
      newest = versionBehind(newest, nowMs - left * 1000);
      added.set(`migrations/${newest}${suffix}`, text);
      recorded[`migrations/${newest}${suffix}`] = fingerprint(text);
    }
    left--;
  }
  return { added, recorded };
}

/**
 * Returns a version that sorts behind another: this time in UTC, or a second
 * later than `newest` if that is ahead. A project with short numbers, such as
 * 0007, gets the next number.
 */
function versionBehind(newest: string, timeMs: number): string {
  const isShort = newest !== "" && newest.length < "20260102".length;
  if (!isShort && stamp(timeMs) > newest) return stamp(timeMs);
  const parts = /^(\d{4})(..)(..)(..)(..)(..)$/;
  const atMs = Date.parse(newest.replace(parts, "$1-$2-$3T$4:$5:$6Z"));
  // Any digits may stand there; only a time can be a second later.
  return !isShort && parts.test(newest) && atMs > 0
    ? stamp(atMs + 1000)
    : next(newest);
}

function next(version: string): string {
  const number = String(BigInt(version) + 1n).padStart(version.length, "0");
  if (number > version) return number;
  throw new Error(
    `Cannot number the migration: none sorts behind ${version}. Give your migrations versions as "supabase migration new" does.`,
  );
}

function stamp(timeMs: number): string {
  return new Date(timeMs).toISOString().replaceAll(/\D/g, "").slice(0, 14);
}
