/** What `remove` does to a project: the opposite of `plan.ts`. */
import { dirname, join } from "node:path";
import { type Change, obstacles } from "./changes.ts";
import { planConfigRemoval } from "./config.ts";
import { newestVersion, versionBehind } from "./migrations.ts";
import { fingerprint, MANIFEST, type Project, readText } from "./project.ts";
import { createdNames, mentionOf, removalSql } from "./removal_sql.ts";

export async function planRemoval(
  { supabase, config, manifest, sql }: Project,
  migrations: ReadonlyMap<string, string>,
  nowMs: number,
) {
  const changes: Change[] = [];
  const changed: string[] = [];
  function remove(path: string) {
    changes.push({ verb: "remove", path, text: null });
  }

  const ours = Object.keys(manifest.files);
  const applied = ours.filter((path) => path.startsWith("migrations/"));
  for (const path of ours) {
    const text = await readText(join(supabase, path));
    if (text === undefined || applied.includes(path)) continue;
    remove(path);
    if (fingerprint(text) !== manifest.files[path]) {
      changed.push(`You have changed supabase/${path}: git has it.`);
    }
  }

  const { text, todo } = planConfigRemoval(config);
  if (text !== config.text) {
    changes.push({ verb: "change", path: config.name, text });
  }

  const names = createdNames([...migrations.values()].join("\n"));
  const version = versionBehind(newestVersion(sql), nowMs);
  const migration = `migrations/${version}_billing_remove.sql`;
  changes.push({ verb: "add", path: migration, text: removalSql(names) });
  remove(MANIFEST); // The last one: without it, a run has ended.

  const mention = mentionOf(names);
  const theirs = [...sql].filter(([path]) => !ours.includes(path));
  const uses = theirs.filter(([, text]) =>
    mention.test(text.replaceAll('"', ""))
  )
    .map(([path]) => `  supabase/${path}`);

  const places = changes.map(({ path }) => `supabase/${path}`);
  const blockers = [...await obstacles(dirname(supabase), places)];
  /** What can be deleted in the end: nothing if ours is squashed. */
  const isSquashed = applied.some((path) => !sql.has(path));
  const last = isSquashed ? [] : [...applied, migration];
  return { changes, changed, todo, blockers, uses, last };
}
