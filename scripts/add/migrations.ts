/**
 * Which migrations a project lacks, and under which versions it gets them. The
 * CLI knows a migration by its version alone, the digits of its file's name, and
 * applies versions in the order of text. A file that sorts before one that is
 * applied needs `--include-all`, so new files come behind all others, and before
 * now: what the user makes next with "supabase migration new" comes behind them.
 *
 * @module
 */

/** A migration of this repository. */
export interface Migration {
  /** Its number in the receiver, as `0001`. */
  readonly id: string;
  /** Its version in this repository. */
  readonly version: string;
  /** The name of its file behind the version, as `_billing_0001_x.sql`. */
  readonly suffix: string;
  readonly text: string;
}

/** What to do with a project's migrations. */
export interface MigrationPlan {
  /** The missing ones, by the names that their files get. */
  readonly added: ReadonlyMap<string, Migration>;
  /** The newest version of those, if "supabase migration new" would make an older one. */
  readonly ahead: string | undefined;
  /** File names by number, as the manifest records them. */
  readonly recorded: Readonly<Record<string, string>>;
  /** Numbers that were added once and whose files are gone: squashed. */
  readonly squashed: readonly string[];
  /** Files of a number that is there already, under an earlier version. */
  readonly twice: ReadonlyMap<string, string>;
}

/** Names of migration files, as the CLI tells them from others. */
const FILE = /^(\d+)_.*\.sql$/;
const OURS = /^(\d+)(_billing_(\d{4})_\w+\.sql)$/;

/** Returns the migration in a file of this repository. */
export function migrationOf(name: string, text: string): Migration {
  const [, version, suffix, id] = OURS.exec(name) ?? [];
  if (version && suffix && id) return { id, version, suffix, text };
  throw new Error(
    `Cannot add ${name}: a migration is named <version>_billing_NNNN_<name>.sql.`,
  );
}

/**
 * Plans a project's migrations.
 *
 * @param project.files The names of the files in `supabase/migrations`.
 * @param project.recorded Those of the manifest.
 * @param clock The time in milliseconds.
 * @throws {Error} If the project's numbers leave no room for another.
 */
export function planMigrations(
  migrations: readonly Migration[],
  project: {
    readonly files: readonly string[];
    readonly recorded: Readonly<Record<string, string>>;
  },
  clock: () => number,
): MigrationPlan {
  const missing: Migration[] = [];
  const recorded: Record<string, string> = { ...project.recorded };
  const squashed: string[] = [];
  const twice = new Map<string, string>();
  for (const migration of migrations) {
    const [first, ...later] = filesOf(migration, project);
    for (const file of later) twice.set(file, first!);
    if (first !== undefined) {
      recorded[migration.id] = first;
    } else if (migration.id in recorded) {
      squashed.push(migration.id);
    } else {
      missing.push(migration);
    }
  }
  const added = new Map<string, Migration>();
  const versions = project.files.flatMap((name) => FILE.exec(name)?.[1] ?? []);
  let newest = versions.sort().at(-1) ?? "";
  const nowMs = clock();
  const firstMs = nowMs - missing.length * 1000;
  for (const migration of missing) {
    newest = versionBehind(newest, firstMs);
    const file = newest + migration.suffix;
    added.set(file, migration);
    recorded[migration.id] = file;
  }
  const isAhead = added.size > 0 && newest.length === 14 &&
    newest >= stamp(nowMs);
  return {
    added,
    ahead: isAhead ? newest : undefined,
    recorded,
    squashed,
    twice,
  };
}

/** The files that hold a migration, under whatever version, the oldest first. */
function filesOf(
  { id, suffix }: Migration,
  { files, recorded }: {
    files: readonly string[];
    recorded: Readonly<Record<string, string>>;
  },
): string[] {
  return files.filter((name) =>
    name.replace(/^\d+/, "") === suffix || name === recorded[id]
  ).sort();
}

/**
 * Returns a version that sorts behind another: this time in UTC, or a second
 * later than `newest` if that is ahead. A project with short numbers, such as
 * 0007, gets the next number.
 */
function versionBehind(newest: string, timeMs: number): string {
  if (newest !== "" && newest.length < "20260102".length) return next(newest);
  const time = stamp(timeMs);
  if (time > newest) return time;
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/.exec(newest) ??
    [];
  const [year = NaN, month = NaN, ...rest] = parts.map(Number);
  const [day, hour, minute, second = NaN] = rest;
  const atMs = Date.UTC(year, month - 1, day, hour, minute, second);
  // Any digits may stand there; only a time can be a second later.
  const isTime = Number.isFinite(atMs) && stamp(atMs) === newest;
  return isTime ? stamp(atMs + 1000) : next(newest);
}

function next(version: string): string {
  const number = String(BigInt(version) + 1n).padStart(version.length, "0");
  if (number > version) return number;
  throw new Error(
    `Cannot number the migrations: none sorts behind ${version}. Give your migrations versions as "supabase migration new" does.`,
  );
}

function stamp(timeMs: number): string {
  return new Date(timeMs).toISOString().replaceAll(/\D/g, "").slice(0, 14);
}
