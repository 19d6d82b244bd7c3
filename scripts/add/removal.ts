/** What `remove` does to a project: the opposite of `plan.ts`. */
import { dirname, join } from "node:path";
import { wrap } from "../common/cli.ts";
import { type Change, obstacles } from "./changes.ts";
import { planConfigRemoval } from "./config.ts";
import { newestVersion, versionBehind } from "./migrations.ts";
import { fingerprint, MANIFEST, type Project, readText } from "./project.ts";

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

  const blockers = [...await obstacles(dirname(supabase), changes)];
  /** What can be deleted in the end: nothing if ours is squashed. */
  const isSquashed = applied.some((path) => !sql.has(path));
  const last = isSquashed ? [] : [...applied, migration];
  return { changes, changed, todo, blockers, uses, last };
}

/** Some functions in public are created by a loop over their names. */
const CREATED =
  /(?<=^create (?:or replace )?(?:table|view|type|function|aggregate|sequence) )billing\.\w+|\bpublic\.billing_\w+/gm;

function createdNames(migrations: string): string[] {
  return [...new Set(migrations.match(CREATED))].sort();
}

/** Finds these names, and handlers, in SQL without quotes. */
function mentionOf(names: readonly string[]): RegExp {
  const all = ["billing.on_\\w+", ...names].join("|");
  const bare = all.replaceAll("public.", "").replaceAll(".", "\\.");
  return new RegExp(`\\b(${bare})\\b`);
}

/**
 * Returns a migration that drops what has these names, unless it finds something of
 * the user's: in schema billing, depending on the receiver, or naming it in a
 * function; the second of a name; and parts of its tables: policies, and what
 * depends on other things. The CLI prints the statement with the error, but no hint.
 */
function removalSql(names: readonly string[]): string {
  const listOf = (start: string) => {
    const ours = names.filter((name) => name.startsWith(start));
    const list = ours.map((name) => name.slice(start.length)).join(", ");
    return `array(select '${start}' || unnest('{
      ${wrap(list, 74).join("\n      ")}
    }'::text[]))`;
  };
  return `-- Drops the billing webhook receiver, with its data.

do $$
declare
  ours constant text[] := ${listOf("billing.")} ||
    ${listOf("public.billing_")};
  mention constant text := format('\\m(%s)\\M',
    replace(replace(array_to_string(ours, '|'), 'public.', ''), '.', '\\.'));
  yours text;
begin
  select string_agg(distinct pg_describe_object(classid, objid, objsubid), ', ')
  into yours
  from (
    select d.*, o.name, o.is_part, used.name as used,
      refclassid = 'pg_namespace'::regclass
        and objid > min(objid) over (partition by refclassid, o.name) as is_second
    from pg_depend d,
      lateral (
        select rtrim(array_to_string(object_names[1:2], '.'), '[]') as name,
          cardinality(object_names) > 2 as is_part
        from pg_identify_object_as_address(classid, objid, objsubid)
      ) o,
      lateral (
        select rtrim(array_to_string(object_names[1:2], '.'), '[]') as name
        from pg_identify_object_as_address(refclassid, refobjid, 0)
      ) used
    where deptype = 'n' or classid = 'pg_policy'::regclass
  ) d
  where case
    when name = any (ours) then
      is_second or classid = 'pg_policy'::regclass or is_part and used <> all (ours)
        and used not like 'billing.%'
    else
      used = any (ours || 'billing'::text) or classid = 'pg_proc'::regclass
        and (select prosrc from pg_proc where oid = objid) ~ mention
  end;
  if yours is not null then
    raise exception 'Nothing was dropped. These are yours, and use the receiver or are part of it: %. Drop or change them at the top of this migration, and push again.', yours;
  end if;

  perform billing.unschedule_worker();
  drop schema billing cascade;
  execute (
    select 'drop routine ' || string_agg(oid::regprocedure::text, ', ')
    from pg_proc
    where pronamespace = 'public'::regnamespace
      and 'public.' || proname = any (ours)
  );
end;
$$;
`;
}
