/** A migration in the folder, or as the database has applied it. */
export interface Migration {
  readonly version: string;
  readonly name: string;
  readonly text: string;
}

/**
 * Returns what differs between the migrations in the folder and those that the
 * database has applied, one line each, with what to do.
 */
export function compareMigrations(
  files: readonly Migration[],
  applied: readonly Migration[],
): readonly string[] {
  const inFolder = byVersion(files);
  const inDatabase = byVersion(applied);
  const changed = applied
    .filter(({ version, text }) => {
      const file = inFolder.get(version);
      return file !== undefined && essence(file.text) !== essence(text);
    })
    .map((one) =>
      `${numberOf(one)} changed since it was applied: deno task reset`
    );
  const missing = applied
    .filter(({ version }) => !inFolder.has(version))
    .map((one) =>
      `${
        numberOf(one)
      } is applied, and its file is gone: put it back, or deno task reset`
    );
  const waiting = files
    .filter(({ version }) => !inDatabase.has(version))
    .map((one) =>
      `${numberOf(one)} is not applied yet: restart deno task start`
    );
  return [...changed, ...missing, ...waiting];
}

/** Returns a migration from the name of its file; undefined for another file. */
export function parseMigrationName(
  file: string,
): Pick<Migration, "version" | "name"> | undefined {
  const [, version, name] = /^(\d+)_(.+)\.sql$/.exec(file) ?? [];
  return version && name ? { version, name } : undefined;
}

function byVersion(
  migrations: readonly Migration[],
): ReadonlyMap<string, Migration> {
  return new Map(migrations.map((one) => [one.version, one]));
}

/**
 * The Supabase CLI stores the statements of a file one by one, without the
 * semicolons and white space between them.
 */
function essence(text: string): string {
  return text.replaceAll(/[\s;]+/g, "");
}

/** This repository's migrations have a number of their own, such as 0010. */
function numberOf({ version, name }: Migration): string {
  return /^billing_(\d{4})_/.exec(name)?.[1] ?? version;
}
