import { basename, dirname, join } from "node:path";
import { REPOSITORY } from "../common/environment.ts";
import { type Change, obstacles } from "./changes.ts";
import { planConfig } from "./config.ts";
import { planMigrations } from "./migrations.ts";
import {
  ATTRIBUTES,
  fingerprint,
  MANIFEST,
  type Project,
  readText,
  type Receiver,
} from "./project.ts";

const SUBSCRIPTIONS =
  /create table (if not exists )?"?billing"?\."?subscriptions\b/i;

/** The functions that the project replaces: written once, and never again. */
const YOURS = /\/billing_99_yours\.sql$/;

export async function makePlan(
  receiver: Receiver,
  project: Project,
  nowMs: number,
) {
  const { supabase, config, manifest, schemas } = project;
  const migrations = planMigrations(receiver, project, nowMs);
  const { text: configText, todo } = planConfig(config);
  const isExported = hasOwnExport(project);

  const wanted = new Map(receiver.files);
  const generated = [...wanted.keys(), ...Object.keys(migrations.recorded)];
  wanted.set(ATTRIBUTES, attributesOf(generated));
  const declared = [...(schemas && !isExported ? receiver.schemas : [])]
    .map(([path, text]) => [`${schemas}/${basename(path)}`, text] as const);
  const isOutside = /^(\.\.|\/)/.test(schemas ?? "");
  if (!isOutside) {
    for (const [path, text] of declared) wanted.set(path, text);
  } else if (declared.some(([path]) => !project.sql.has(path))) {
    todo.push(
      `Your declarative schemas, ${schemas}, are outside of supabase/, where add writes nothing. Copy the receiver's there: ${REPOSITORY}/supabase/schemas/*.sql`,
    );
  }

  /** The manifest is the last one: without it, a run has not ended. */
  const changes: Change[] = [];
  function change(path: string, text: string | null, has?: string) {
    const verb = has === undefined ? "add" : "change";
    changes.push({ verb: text === null ? "remove" : verb, path, text });
  }

  const recorded: Record<string, string> = { ...migrations.recorded };
  const kept: string[] = [];
  const notes: string[] = [];
  const blockers: string[] = [];

  const order = { numeric: true };
  if (manifest.version.localeCompare(receiver.version, "en", order) > 0) {
    blockers.push(
      `The project has version ${manifest.version}, which is newer than this one, ${receiver.version}. Run add from a newer clone.`,
    );
  }

  const paths = new Set([...wanted.keys(), ...Object.keys(manifest.files)]);
  for (const path of paths) {
    if (path.startsWith("migrations/")) continue;

    const text = wanted.get(path) ?? null;
    const theirs = await readText(join(supabase, path));
    const has = theirs === undefined ? undefined : fingerprint(theirs);
    const ours = text === null ? undefined : fingerprint(text);
    const base = manifest.files[path];
    const isTheirs = has !== undefined && has !== base && has !== ours;

    if (path === ATTRIBUTES && isTheirs) {
      const lines = text!.trimEnd().split("\n")
        .filter((line) => !theirs!.includes(line));
      if (lines.length > 0) {
        notes.push(
          `git: to fold the receiver's files in reviews, add to supabase/${path}:\n  ${
            lines.join("\n  ")
          }`,
        );
      }
      continue;
    }
    if (ours !== undefined) recorded[path] = ours;

    const isYours = YOURS.test(path) && base !== undefined;
    if (has === ours || isYours && (isTheirs || ours !== undefined)) continue;
    if (!isTheirs) {
      change(path, text, has);
    } else if (base === undefined) {
      blockers.push(
        `supabase/${path} is there already, and add did not put it there. Move or delete it, and commit.`,
      );
    } else {
      kept.push(path);
    }
  }

  for (const [path, base] of Object.entries(migrations.recorded)) {
    const theirs = project.sql.get(path);
    if (theirs !== undefined && fingerprint(theirs) !== base) kept.push(path);
  }
  if (kept.length > 0) {
    todo.push(
      "Undo your changes to kept files with git. Or delete the file and run add again, unless it is a migration.",
    );
  }

  for (const path of lostMigrations(project)) {
    todo.push(
      `supabase/${path} is gone, and a new database needs it: restore it with git.`,
    );
  }

  for (const [path, text] of migrations.added) change(path, text);
  if (configText !== undefined) change(config.name, configText, config.text);

  const files = Object.entries(recorded).sort(([a], [b]) => a < b ? -1 : 1);
  const next = { version: receiver.version, files: Object.fromEntries(files) };
  const before = await readText(join(supabase, MANIFEST));
  // As Biome formats it; another formatter may have changed it since.
  const text = `${JSON.stringify(next, null, "\t")}\n`;
  const isSame = JSON.stringify(next) === JSON.stringify(manifest);
  if (!isSame) change(MANIFEST, text, before);

  if (before === undefined) {
    todo.push(...takenNames(receiver, project));
  } else if (isExported && migrations.added.size > 0) {
    todo.push(
      `Your declarative schemas have schema billing as it was: export them again after the push ("supabase db schema declarative generate").`,
    );
  }

  blockers.push(...await obstacles(dirname(supabase), changes));
  return { changes, kept, todo, notes, blockers };
}

/** Tells git's hosts to fold these files in a review. */
function attributesOf(paths: readonly string[]): string {
  return paths.map((path) => `/${path} linguist-generated\n`).join("");
}

/** A squash has put ours into another one. */
function lostMigrations({ sql, manifest }: Project): string[] {
  const isSquashed = [...sql.values()].some((text) => SUBSCRIPTIONS.test(text));
  return isSquashed ? [] : Object.keys(manifest.files)
    .filter((path) => path.startsWith("migrations/") && !sql.has(path));
}

function hasOwnExport({ sql, schemas }: Project): boolean {
  return [...sql].some(([path, text]) =>
    path.startsWith(`${schemas}/`) && !/\/billing_\d\d_\w+\.sql$/.test(path) &&
    SUBSCRIPTIONS.test(text)
  );
}

/** Statements that a `do` block makes up are not seen. */
const CREATED =
  /\bcreate\s+(?:or\s+replace\s+)?(?:table|(?:materialized\s+)?view|function|type|(schema))\s+(?:if\s+not\s+exists\s+)?(?:"?public"?\s*\.\s*)?"?(billing\w*)("?\s*\.)?/gi;

/** The database is not seen: the migration itself refuses if a name is taken there. */
function takenNames({ migrations }: Receiver, { sql }: Project): string[] {
  const texts = [...migrations.values()];
  const ours = namesIn(texts.join("\n"));
  return [...sql].flatMap(([path, text]) => {
    const taken = texts.includes(text) ? [] : [...namesIn(text)];
    return taken.filter((name) => ours.has(name)).map((name) =>
      `supabase/${path} creates ${name}, a name of the receiver. If your database still has it, "supabase db push" creates nothing: undo this with git, rename yours in a migration, and run add again.`
    );
  });
}

function namesIn(text: string): Set<string> {
  const bare = text.replaceAll(/--.*|\/\*[^]*?\*\//g, " ");
  const names = new Set<string>();
  for (const [, schema, name, inside] of bare.matchAll(CREATED)) {
    names.add(`${schema || inside ? "schema " : "public."}${name}`);
  }
  return names;
}
