/**
 * Which migrations a project lacks, and under which versions it gets them: the digits
 * of a file's name. The CLI applies them in the order of text, and one that sorts before
 * an applied one needs `--include-all`. So new files come behind all others, and before
 * now: what the user makes next with "supabase migration new" comes behind them.
 */
import { fingerprint, type Project, type Receiver } from "./project.ts";

const suffixOf = (path: string) => path.replace(/^migrations\/\d+/, "");

/**
 * Returns the migrations that a project lacks, and for the manifest the fingerprints of
 * all that it has, or had before it squashed its migrations, both by path.
 */
export function planMigrations(
  { migrations }: Receiver,
  { sql, manifest }: Project,
  nowMs: number,
) {
  const added = new Map<string, string>();
  const recorded: Record<string, string> = {};

  let newest = newestVersion(sql);
  let timeMs = nowMs - migrations.size * 1000;

  for (const [ours, text] of migrations) {
    const had = Object.keys(manifest.files)
      .filter((path) => suffixOf(path) === suffixOf(ours));
    // The project may have a migration of its own with this name.
    const isOurs = (path: string) =>
      had.includes(path) ||
      suffixOf(path) === suffixOf(ours) &&
        fingerprint(sql.get(path)!) === fingerprint(text);

    let path = [...sql.keys()].filter(isOurs).sort()[0] ?? had[0];
    if (path === undefined) {
      newest = versionBehind(newest, timeMs);
      path = `migrations/${newest}${suffixOf(ours)}`;
      added.set(path, text);
    }
    recorded[path] = manifest.files[path] ?? fingerprint(text);
    timeMs += 1000;
  }
  return { added, recorded };
}

export function newestVersion(sql: Project["sql"]): string {
  return [...sql.keys()]
    .flatMap((path) => /^migrations\/(\d+)_[^/]*\.sql$/.exec(path)?.[1] ?? [])
    .sort().at(-1) ?? "";
}

/**
 * Returns a version that sorts behind another: this time in UTC, or the next
 * number if `newest` is ahead, or if the project has short ones, such as 0007.
 */
export function versionBehind(newest: string, timeMs: number): string {
  const digits = new Date(timeMs).toISOString().replaceAll(/\D/g, "");
  const time = digits.slice(0, 14);
  const isShort = newest !== "" && newest.length < "20260102".length;
  if (!isShort && time > newest) return time;
  const next = `${BigInt(newest) + 1n}`.padStart(newest.length, "0");
  if (next > newest) return next;
  throw new Error(
    `Cannot number the migration: none sorts behind ${newest}. Give your migrations versions as "supabase migration new" does.`,
  );
}
