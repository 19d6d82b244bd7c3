/** The manifest's path below `supabase/`. */
export const MANIFEST = "billing.json";

/** What `add` has put into a project. */
export interface Manifest {
  readonly version: string;
  /** Fingerprints of the version's texts, by path. */
  readonly files: Readonly<Record<string, string>>;
}

/** `add` deletes files that the manifest names, so it may name no others. */
const OURS =
  /^(?!.*\.\.)(functions\/(billing-webhook|billing-worker|_shared\/billing)\/.+|snippets\/.+|migrations\/\d+_billing\w*\.sql|.+\/billing_\d_\w+\.sql)$/;

/**
 * Reads a project's manifest.
 *
 * @param text Undefined if the project has none.
 * @throws {Error} If it is not what `add` has written.
 */
export function parseManifest(text: string | undefined): Manifest {
  if (text === undefined) return { version: "", files: {} };
  try {
    const { version, files } = JSON.parse(text);
    const isOurs = Object.keys(files).every((path) => OURS.test(path));
    if (isOurs && typeof version === "string") return { version, files };
  } catch {
    // Answered below.
  }
  throw new Error(
    `Cannot use supabase/${MANIFEST}: it is not what add has written. After a merge, take either side as a whole.`,
  );
}

/** Returns the manifest as it is written, in a stable order for git. */
export function manifestText({ version, files }: Manifest): string {
  const sorted = Object.entries(files).sort(([a], [b]) => a < b ? -1 : 1);
  const manifest = { version, files: Object.fromEntries(sorted) };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}
