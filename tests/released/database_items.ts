import { assert } from "@std/assert";
import type postgres from "postgres";
import { readDoc } from "../support/sql_blocks.ts";

/** What docs/stability.md promises of the database. */
interface Promised {
  /** The columns that are not promised, by table or view. */
  readonly relations: ReadonlyMap<string, readonly string[]>;
  readonly functions: readonly string[];
}

/** Reads the tables of docs/stability.md. */
async function readPromised(): Promise<Promised> {
  const page = await readDoc("stability.md");
  const rows = (heading: string) => {
    const [, rest = ""] = page.split(`### ${heading}\n`);
    const [section = ""] = rest.split("\n#");
    return [...section.matchAll(/^\| (`.+?) *\|(.+)\|$/gm)]
      .map(([, names = "", text = ""]) => [words(names), words(text)] as const);
  };
  return {
    relations: new Map(
      rows("Tables and views").map(([[name = ""], left]) => [name, left]),
    ),
    functions: rows("Functions in SQL").flatMap(([names]) => names),
  };
}

function words(text: string): string[] {
  return Array.from(text.matchAll(/`(\w+)`/g), ([, word = ""]) => word);
}

/** Returns what a database has of what is promised. */
export async function databaseItems(
  sql: postgres.Sql,
): Promise<Record<string, string>> {
  const { relations, functions } = await readPromised();
  assert(relations.size > 5 && functions.length > 5);
  const columns = await sql`
    select c.relname as relation, k.attname as name,
      format_type(k.atttypid, k.atttypmod)
        || case when k.attnotnull then ' not null' else '' end as type
    from pg_class c join pg_attribute k on k.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relname in ${
    sql([...relations.keys()])
  } and k.attnum > 0 and not k.attisdropped`;
  const rights = await sql`
    select c.relname as relation, lower(a.privilege_type) as right
    from pg_class c, aclexplode(c.relacl) a
    where c.relnamespace = 'public'::regnamespace and c.relname in ${
    sql([...relations.keys()])
  } and a.grantee = 'service_role'::regrole`;
  const found = await sql`
    select p.proname as name, pg_get_function_result(p.oid) as result,
      has_function_privilege('service_role', p.oid, 'execute') as granted,
      p.pronargs - p.pronargdefaults as required, p.pronargs as count,
      p.proargnames as names,
      array(
        select format_type(t.type, null)
        from unnest(p.proargtypes) with ordinality t (type, place) order by place
      ) as types
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proname in ${
    sql(functions)
  }`;
  return Object.fromEntries([
    ...columns.filter(({ relation, name }) =>
      !relations.get(relation)?.includes(name)
    ).map(({ relation, name, type }) => [`column ${relation}.${name}`, type]),
    ...rights.map((row) => [
      `right ${row["right"]} on ${row["relation"]}`,
      "service_role",
    ]),
    ...found.flatMap(functionItems),
  ]);
}

/** A new argument changes none of them, if it has a default and comes last. */
function functionItems(
  { name, result, granted, required, count, names, types }: postgres.Row,
): string[][] {
  const right = granted ? ", for service_role" : "";
  const places = Array.from({ length: count }, (_, place) => place);
  return [
    [`function ${name}`, `${required} required, returns ${result}${right}`],
    ...places.map((place) => [
      `argument ${place + 1} of ${name}`,
      `${names[place]} ${types[place]}`,
    ]),
  ];
}
