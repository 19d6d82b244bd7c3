/**
 * Every request that reaches into schema `public` through the REST API, made
 * from the catalog: what a later migration adds is among it.
 *
 * @module
 */
import type postgres from "postgres";

/** A request, and how the API refuses it to callers without the right. */
export interface ApiRequest {
  readonly method: string;
  /** Below the API's own URL. */
  readonly path: string;
  readonly body?: string;
  /** SQLSTATE or PostgREST's own code. */
  readonly refusedWith: string;
}

const NO_RIGHT = "42501";
/** What Postgres says of a view that nobody can write to, before all else. */
const NOT_UPDATABLE = "55000";
/** PostgREST offers no function that returns `trigger`. */
const NO_SUCH_FUNCTION = "PGRST202";

/** Texts that the types of arguments take. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  "text": "x",
  "text[]": "{x}",
  "boolean": "true",
  "bigint": "1",
  "integer": "1",
  "numeric": "1",
  "uuid": "00000000-0000-0000-0000-000000000000",
  "uuid[]": "{}",
  "jsonb": "[]",
  "interval": "1 day",
  "timestamp with time zone": "2026-01-01T00:00:00Z",
};

/** Returns requests that read and write each table and view. */
export async function relationRequests(
  sql: postgres.Sql,
): Promise<ApiRequest[]> {
  const relations = await sql<
    { name: string; column: string; events: number }[]
  >`
    select c.relname as name, a.attname as column,
      pg_relation_is_updatable(c.oid, true) as events
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum = 1
    where c.relnamespace = 'public'::regnamespace
      and c.relkind in ('r', 'p', 'v', 'm', 'f')
    order by c.relname`;
  return relations.flatMap(({ name, column, events }) => {
    // The bits of pg_relation_is_updatable: 1 << CmdType.
    const write = (bit: number) => events & bit ? NO_RIGHT : NOT_UPDATABLE;
    const path = `/${encodeURIComponent(name)}`;
    return [
      { method: "GET", path, refusedWith: NO_RIGHT },
      { method: "POST", path, body: "{}", refusedWith: write(1 << 3) },
      {
        method: "PATCH",
        path,
        body: JSON.stringify({ [column]: null }),
        refusedWith: write(1 << 2),
      },
      { method: "DELETE", path, refusedWith: write(1 << 4) },
    ];
  });
}

/** Returns two calls of each function: by GET and by POST. */
export async function functionRequests(
  sql: postgres.Sql,
): Promise<ApiRequest[]> {
  const functions = await sql<
    { name: string; names: string[]; types: string[]; is_trigger: boolean }[]
  >`
    select p.proname as name, p.prorettype = 'trigger'::regtype as is_trigger,
      coalesce(p.proargnames[1:p.pronargs], '{}') as names,
      array(
        select format_type(t.type, null)
        from unnest(p.proargtypes) with ordinality as t (type, place)
        order by t.place
      ) as types
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.prokind in ('f', 'p')
    order by p.proname`;
  return functions.flatMap(({ name, names, types, is_trigger }) => {
    const given = names.map((argument, place) => {
      const text = ARGUMENTS[types[place] ?? ""];
      if (text !== undefined) return [argument, text];
      throw new Error(
        `Cannot call ${name}: ARGUMENTS has nothing of type ${
          types[place]
        }. Add it there.`,
      );
    });
    const path = `/rpc/${encodeURIComponent(name)}`;
    const refusedWith = is_trigger ? NO_SUCH_FUNCTION : NO_RIGHT;
    const nothing = Object.fromEntries(
      names.map((argument) => [argument, null]),
    );
    return [
      { method: "POST", path, body: JSON.stringify(nothing), refusedWith },
      {
        method: "GET",
        path: `${path}?${new URLSearchParams(given)}`,
        refusedWith,
      },
    ];
  });
}
