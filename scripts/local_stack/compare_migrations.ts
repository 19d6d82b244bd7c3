import { asTyped } from "../common/how_started.ts";

/** A migration in the folder, or as the database has applied it. */
export interface Migration {
  readonly version: string;
  readonly name: string;
  readonly text: string;
}

/** A difference between the folder and the database. */
export interface MigrationFinding {
  readonly kind: "changed" | "missing" | "waiting";
  /** One line, with what to do. */
  readonly text: string;
}

/**
 * Returns what differs between the migrations in the folder and those that the
 * database has applied.
 */
export function compareMigrations(
  files: readonly Migration[],
  applied: readonly Migration[],
): readonly MigrationFinding[] {
  const inFolder = byVersion(files);
  const inDatabase = byVersion(applied);
  return [
    ...applied.flatMap((one) => compareOne(one, inFolder.get(one.version))),
    ...files.filter(({ version }) => !inDatabase.has(version)).map((one) => ({
      kind: "waiting" as const,
      text: `${numberOf(one)} is not applied yet: restart ${asTyped("start")}`,
    })),
  ];
}

function compareOne(
  applied: Migration,
  file: Migration | undefined,
): readonly MigrationFinding[] {
  const number = numberOf(applied);
  if (file === undefined) {
    const text = `${number} is applied, and its file is gone: put it back, or ${
      asTyped("reset")
    }`;
    return [{ kind: "missing", text }];
  }
  if (essence(file.text) === essence(applied.text)) return [];
  const text = `${number} changed since it was applied: ${asTyped("reset")}`;
  return [{ kind: "changed", text }];
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
