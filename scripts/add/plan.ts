/**
 * What `add` does to a project, before anything is written.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { planConfig } from "./config.ts";
import { fingerprint, readText } from "./files.ts";
import { MANIFEST, manifestText } from "./manifest.ts";
import { planMigrations } from "./migrations.ts";
import type { Project } from "./project.ts";
import type { Receiver } from "./receiver.ts";
import { hasReceiver, takenNames } from "./sql_names.ts";

/** A file to write; null removes it. */
export interface Change {
  readonly verb: "add" | "change" | "remove";
  /** Below `supabase/`. */
  readonly path: string;
  readonly text: string | null;
}

/** What to do. */
export interface Plan {
  /** The manifest is the last one: without it, a run has not ended. */
  readonly changes: readonly Change[];
  /** Paths of files that the project has changed. They stay as they are. */
  readonly kept: readonly string[];
  /** What is left for the user to do. */
  readonly todo: readonly string[];
  /** Why nothing can be done, each with what to do first. */
  readonly blockers: readonly string[];
}

/** The functions that the project replaces: written once, and never again. */
const YOURS = /\/billing_8_yours\.sql$/;

/** Plans how a project gets the receiver, or this version of it. */
export async function makePlan(
  receiver: Receiver,
  project: Project,
  nowMs: number,
): Promise<Plan> {
  const { supabase, config, manifest, sql, schemas } = project;
  const migrations = planMigrations(receiver, project, nowMs);
  const { text: configText, todo } = planConfig(config);
  const isExported = hasReceiver(sql, `${schemas}/`);
  const wanted = new Map(receiver.files);
  for (const [name, text] of receiver.schemas) {
    if (schemas && !isExported) wanted.set(`${schemas}/${name}`, text);
  }
  const changes: Change[] = [];
  const recorded: Record<string, string> = { ...migrations.recorded };
  const kept: string[] = [];
  const blockers: string[] = [];
  for (
    const path of new Set([...wanted.keys(), ...Object.keys(manifest.files)])
  ) {
    if (path.startsWith("migrations/")) continue;
    const text = wanted.get(path) ?? null;
    const theirs = await readText(join(supabase, path));
    const has = theirs === undefined ? undefined : fingerprint(theirs);
    const ours = text === null ? undefined : fingerprint(text);
    const base = manifest.files[path];
    if (ours !== undefined) recorded[path] = ours;
    if (has === ours || (YOURS.test(path) && base && ours)) continue;
    if (has === undefined) changes.push({ verb: "add", path, text });
    else if (has === base) {
      changes.push({ verb: text === null ? "remove" : "change", path, text });
    } else if (base === undefined) {
      blockers.push(
        `supabase/${path} is there already, and add did not put it there. Move or delete it, and commit.`,
      );
    } else {
      kept.push(path);
      if (ours !== base) todo.push(mergeText(path, text !== null));
    }
  }
  for (const [path, text] of migrations.added) {
    changes.push({ verb: "add", path, text });
  }
  if (configText !== undefined) {
    changes.push({ verb: "change", path: config.name, text: configText });
  }
  const text = manifestText({ version: receiver.version, files: recorded });
  const before = await readText(join(supabase, MANIFEST));
  if (text !== before) {
    const verb = before === undefined ? "add" : "change";
    changes.push({ verb, path: MANIFEST, text });
  }
  if (before === undefined) todo.push(...takenNames(receiver, sql));
  else if (isExported && migrations.added.size > 0) {
    todo.push(
      `Your declarative schemas have schema billing as it was: export them again after the push ("supabase db schema declarative generate").`,
    );
  }
  const order = { numeric: true };
  if (manifest.version.localeCompare(receiver.version, "en", order) > 0) {
    blockers.unshift(
      `The project has version ${manifest.version}, which is newer than this one, ${receiver.version}. Run add from a newer clone.`,
    );
  }
  return {
    changes,
    kept,
    todo: [...todo, ...project.todo],
    blockers,
  };
}

/** Makes the changes of a plan. */
export async function writePlan(
  supabase: string,
  { changes }: Plan,
): Promise<void> {
  for (const { path, text } of changes) {
    const file = join(supabase, path);
    await Deno.mkdir(dirname(file), { recursive: true });
    await (text === null ? Deno.remove(file) : Deno.writeTextFile(file, text));
  }
}

function mergeText(path: string, isThere: boolean): string {
  return isThere
    ? `You have changed supabase/${path}, and this version changes it too. Merge this version's by hand; or delete yours, commit, and run add again.`
    : `You have changed supabase/${path}, which this version does not have. Delete it if you do not need it.`;
}
