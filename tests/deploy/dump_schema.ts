/**
 * Schemas `public` and `billing` of a database as SQL, as `pg_dump --schema-only`
 * writes them: what was granted, compared with Postgres's own defaults, and
 * nothing of what was revoked from the roles that default privileges name. The
 * embedded Postgres comes without pg_dump, and Debian's refuses a newer server.
 *
 * Two databases are equal if their dumps are.
 *
 * @module
 */
import type postgres from "postgres";

/** What pg_dump sets: nothing is looked up while functions are created. */
const HEAD = `set check_function_bodies = false;
select pg_catalog.set_config('search_path', '', false);`;

const SCHEMAS =
  "(select n.oid from pg_namespace n where n.nspname in ('public', 'billing'))";

/** No statement below writes these, so a schema with one is refused. */
const UNKNOWN = `
  select c.oid::regclass::text as object from pg_class c
  where c.relnamespace in ${SCHEMAS} and (
    c.relkind not in ('r', 'v', 'i', 't', 'c')
    or c.relispartition or c.relhassubclass or c.relforcerowsecurity
  )
  union all
  select k.attrelid::regclass || '.' || k.attname from pg_attribute k
  join pg_class c on c.oid = k.attrelid
  where c.relnamespace in ${SCHEMAS} and k.attgenerated <> ''
  union all
  select t.oid::regtype::text from pg_type t
  where t.typnamespace in ${SCHEMAS} and (
    t.typrelid = 0 and t.typelem = 0 and t.typtype <> 'e' or t.typacl is not null
  )
  union all
  select p.oid::regprocedure::text from pg_proc p
  where p.pronamespace in ${SCHEMAS} and p.prokind not in ('f', 'p', 'a')
  union all
  select r.rulename from pg_rewrite r join pg_class c on c.oid = r.ev_class
  where c.relnamespace in ${SCHEMAS} and c.relkind <> 'v'`;

/** The columns of a table or composite type `c`. */
const COLUMNS = `(
  select string_agg(concat_ws(' ',
    quote_ident(k.attname), format_type(k.atttypid, k.atttypmod),
    'collate ' || nullif(k.attcollation, t.typcollation)::regcollation,
    'default ' || pg_get_expr(d.adbin, d.adrelid),
    case when k.attnotnull then 'not null' end
  ), E',\\n  ' order by k.attnum)
  from pg_attribute k
  join pg_type t on t.oid = k.atttypid
  left join pg_attrdef d on d.adrelid = k.attrelid and d.adnum = k.attnum
  where k.attrelid = c.oid and k.attnum > 0 and not k.attisdropped
)`;

/** Each of them writes statements of one kind, in order. */
const STATEMENTS = [
  `select format('create schema %I', n.nspname) as text
  from pg_namespace n where n.nspname = 'billing'`,

  // What needs another one was created after it, and has a higher number.
  `select o.text
  from (
    select c.oid, format(
      case c.relkind when 'c' then E'create type %s as (\\n  %s\\n)%s'
        when 'v' then E'create view %s%3$s as\\n%2$s'
        else E'create table %s (\\n  %s\\n)%s' end,
      c.oid::regclass,
      case c.relkind when 'v' then pg_get_viewdef(c.oid) else ${COLUMNS} end,
      ' with (' || array_to_string(c.reloptions, ', ') || ')'
    ) as text
    from pg_class c
    where c.relnamespace in ${SCHEMAS} and c.relkind in ('r', 'v', 'c')
    union all
    select t.oid, format('create type %s as enum (%s)', t.oid::regtype, string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder))
    from pg_type t join pg_enum e on e.enumtypid = t.oid
    where t.typnamespace in ${SCHEMAS}
    group by t.oid
    union all
    select p.oid, pg_get_functiondef(p.oid)
    from pg_proc p where p.pronamespace in ${SCHEMAS} and p.prokind <> 'a'
    union all
    select p.oid, format('create aggregate %s (sfunc = %s, stype = %s)', p.oid::regprocedure, a.aggtransfn, a.aggtranstype::regtype)
    from pg_proc p join pg_aggregate a on a.aggfnoid = p.oid
    where p.pronamespace in ${SCHEMAS}
  ) as o
  order by o.oid`,

  `select format(
    'alter table %s add constraint %I %s', k.conrelid::regclass, k.conname,
    pg_get_constraintdef(k.oid)
  ) as text
  from pg_constraint k
  where k.connamespace in ${SCHEMAS} and k.contype in ('c', 'p', 'u', 'x', 'f')
  order by k.contype = 'f', k.conrelid::regclass::text, k.conname`,

  `select pg_get_indexdef(i.indexrelid) as text
  from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace in ${SCHEMAS}
    and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
  order by 1`,

  `select pg_get_triggerdef(t.oid) as text
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace in ${SCHEMAS} and not t.tgisinternal order by 1`,

  `select format('alter table %s enable row level security', c.oid::regclass) as text
  from pg_class c
  where c.relnamespace in ${SCHEMAS} and c.relrowsecurity order by 1`,

  `select format(
    'create policy %I on %I.%I as %s for %s to %s%s%s', p.policyname, p.schemaname, p.tablename,
    p.permissive, p.cmd, array_to_string(p.roles, ', '),
    ' using (' || p.qual || ')', ' with check (' || p.with_check || ')'
  ) as text
  from pg_policies p where p.schemaname in ('public', 'billing') order by p.schemaname, p.tablename, p.policyname`,

  `select format(
    'comment on %s %s is %L', regexp_replace(o.type, '.* column', 'column'), o.identity,
    d.description
  ) as text
  from pg_description d, pg_identify_object(d.classoid, d.objoid, d.objsubid) o
  where o.schema in ('public', 'billing') or (o.type, o.identity) = ('schema', 'billing')
  order by 1`,

  // The only default grant of Postgres's own is execute to PUBLIC.
  `select format('revoke all on function %s from public', p.oid::regprocedure) as text
  from pg_proc p
  where p.pronamespace in ${SCHEMAS} and p.proacl is not null
    and not exists (select from aclexplode(p.proacl) a where a.grantee = 0)
  order by 1`,

  `select format(
    'grant %s on %s to %s', string_agg(a.privilege_type || o.columns, ', ' order by a.privilege_type || o.columns),
    o.name, case a.grantee when 0 then 'public' else a.grantee::regrole::text end
  ) as text
  from (
    select 'function ' || p.oid::regprocedure, '', p.proowner, p.proacl from pg_proc p
    where p.pronamespace in ${SCHEMAS}
    union all
    select 'table ' || c.oid::regclass, '', c.relowner, c.relacl from pg_class c
    where c.relnamespace in ${SCHEMAS}
    union all
    select 'table ' || c.oid::regclass, format(' (%I)', k.attname), c.relowner, k.attacl
    from pg_class c join pg_attribute k on k.attrelid = c.oid
    where c.relnamespace in ${SCHEMAS}
    union all
    select 'schema ' || n.nspname, '', n.nspowner, n.nspacl from pg_namespace n where n.nspname = 'billing'
  ) as o (name, columns, owner, acl), aclexplode(o.acl) a
  where a.grantee <> o.owner
  group by o.name, a.grantee
  order by 1`,
];

/**
 * Returns the statements that create what is in both schemas again.
 *
 * @param sql One connection, whose search path is the default one afterwards.
 * @throws {Error} If a schema has what no statement here creates.
 */
export async function dumpSchema(
  sql: Pick<postgres.Sql, "unsafe">,
): Promise<string[]> {
  // Every name is then written with its schema.
  await sql.unsafe("set search_path = ''");
  const unknown = await sql.unsafe(UNKNOWN);
  if (unknown.length > 0) {
    throw new Error(
      `Cannot dump ${unknown.map(({ object }) => object).join(", ")}`,
    );
  }
  const texts = [HEAD];
  for (const query of STATEMENTS) {
    for (const { text } of await sql.unsafe(query)) {
      texts.push(`${String(text).trim().replace(/;$/, "")};`);
    }
  }
  await sql.unsafe("set search_path to default");
  return texts;
}
