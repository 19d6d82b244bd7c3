/**
 * What becomes of each file, by three fingerprints: this version's, the
 * project's, and the one of the text that `add` last put there.
 *
 * @module
 */
import { ENV_EXAMPLE, envBlock } from "./env_example.ts";
import { fingerprint } from "./fingerprint.ts";
import type { Project } from "./project.ts";
import type { Receiver } from "./receiver.ts";

/**
 * - `new`: the project does not have it; `updated`: as it was put there, and
 *   this version's replaces it; `unchanged`: it is this version's.
 * - `changed`: the user changed it, and there is nothing new; `conflict`: the
 *   user changed it, and there is something new; `foreign`: another file has
 *   its name.
 * - `removed`: this version does not have it; `released`: the same, but the user
 *   changed it, so that it stays.
 */
export type FileState =
  | "new"
  | "updated"
  | "unchanged"
  | "changed"
  | "conflict"
  | "foreign"
  | "removed"
  | "released";

/** A file, by its path below `supabase/`. */
export interface PlannedFile {
  readonly path: string;
  readonly state: FileState;
  /** This version's text, and what the project has. */
  readonly ours: string | undefined;
  readonly theirs: string | undefined;
}

/** What the user decided about single files, by path. */
export interface Decisions {
  readonly force?: string | undefined;
  readonly keep?: string | undefined;
}

/** Plans the files, in the order of their paths. */
export function planFiles(
  receiver: Receiver,
  { project, decisions }: { project: Project; decisions: Decisions },
): PlannedFile[] {
  const recorded = project.manifest.files;
  const paths = new Set([...receiver.files.keys(), ...Object.keys(recorded)]);
  return [...paths].sort().flatMap((path) => {
    const ours = receiver.files.get(path);
    const found = project.files.get(path);
    const theirs = path === ENV_EXAMPLE ? envBlock(found, ours ?? "") : found;
    const state = stateOf(
      { path, ours, theirs, base: recorded[path] },
      decisions,
    );
    return state === undefined ? [] : [{ path, state, ours, theirs }];
  });
}

function stateOf(
  { path, ours, theirs, base }: {
    path: string;
    ours: string | undefined;
    theirs: string | undefined;
    base: string | undefined;
  },
  { force, keep }: Decisions,
): FileState | undefined {
  if (theirs === undefined) return ours === undefined ? undefined : "new";
  const has = fingerprint(theirs);
  if (ours === undefined) return has === base ? "removed" : "released";
  const wanted = fingerprint(ours);
  if (has === wanted) return "unchanged";
  if (has === base || path === force) return "updated";
  if (base === undefined) return "foreign";
  return base === wanted || path === keep ? "changed" : "conflict";
}
