import { COPIED_FOLDERS } from "./receiver.ts";
import { ENV_EXAMPLE } from "./env_example.ts";

/** The manifest's path below `supabase/`. */
export const MANIFEST = "billing.json";

/** What `add` has put into a project. */
export interface Manifest {
  readonly version: string;
  /** Fingerprints of the texts as they were put there, by path. */
  readonly files: Readonly<Record<string, string>>;
  /** Names of files in `supabase/migrations`, by the migration's number. */
  readonly migrations: Readonly<Record<string, string>>;
}

const EMPTY: Manifest = { version: "0.0.0", files: {}, migrations: {} };

/**
 * Reads a project's manifest.
 *
 * @param text Undefined if the project has none.
 * @throws {Error} If it is not one, or names files that are none of `add`.
 */
export function parseManifest(text: string | undefined): Manifest {
  if (text === undefined) return EMPTY;
  const manifest = parse(text);
  const foreign = Object.keys(manifest.files).find((path) => !isOurs(path));
  if (foreign !== undefined) {
    throw new Error(
      `Cannot use supabase/${MANIFEST}: ${foreign} is not a file of the receiver. Take the file's last good version from git.`,
    );
  }
  return manifest;
}

/** Returns the manifest as it is written, in a stable order for git. */
export function manifestText({ version, files, migrations }: Manifest): string {
  const sorted = {
    version,
    files: inOrder(files),
    migrations: inOrder(migrations),
  };
  return `${JSON.stringify(sorted, null, 2)}\n`;
}

function parse(text: string): Manifest {
  try {
    const { version, files, migrations } = JSON.parse(text);
    const texts = [
      version,
      ...Object.values(files as object),
      ...Object.values(migrations as object),
    ];
    if (texts.every((it) => typeof it === "string")) {
      return { version, files, migrations };
    }
  } catch {
    // Answered below.
  }
  throw new Error(
    `Cannot use supabase/${MANIFEST}: it is not what add has written. After a merge, keep either side as a whole, and run add again.`,
  );
}

function isOurs(path: string): boolean {
  if (path === ENV_EXAMPLE) return true;
  return !path.split("/").includes("..") && !path.includes("\\") &&
    COPIED_FOLDERS.some((folder) => path.startsWith(`${folder}/`));
}

function inOrder(
  record: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1),
  );
}
