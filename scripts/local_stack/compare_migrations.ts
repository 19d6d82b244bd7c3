import { asTyped } from "../common/how_started.ts";

/** A migration in the folder, or as the database has applied it. */
export interface Migration {
  readonly version: string;
  readonly text: string;
}

/** How the folder and the database differ. */
export interface MigrationFinding {
  readonly kind: "changed" | "waiting";
  /** One line, with what to do. */
  readonly text: string;
}

/**
 * Returns how the migrations in the folder differ from those that the database
 * has applied; undefined if they are the same. A migration that is applied is
 * never applied again, so a change of its file needs a new database.
 */
export function compareMigrations(
  files: readonly Migration[],
  applied: readonly Migration[],
): MigrationFinding | undefined {
  const inFolder = byVersion(files);
  const inDatabase = byVersion(applied);
  const isChanged = applied.some(({ version }) =>
    inFolder.get(version) !== inDatabase.get(version)
  );
  if (isChanged) {
    const text = `the data was made by another version: ${asTyped("reset")}`;
    return { kind: "changed", text };
  }
  const waiting = files.find(({ version }) => !inDatabase.has(version));
  if (waiting === undefined) return undefined;
  const text = `${waiting.version} is not applied yet: restart ${
    asTyped("start")
  }`;
  return { kind: "waiting", text };
}

function byVersion(
  migrations: readonly Migration[],
): ReadonlyMap<string, string> {
  return new Map(
    migrations.map(({ version, text }) => [version, essence(text)]),
  );
}

/**
 * The Supabase CLI stores the statements of a file one by one, without the
 * semicolons and white space between them.
 */
function essence(text: string): string {
  return text.replaceAll(/[\s;]+/g, "");
}
