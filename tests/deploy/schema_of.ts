import type postgres from "postgres";

const OURS = "::regnamespace::text in ('public', 'billing')";
const OF_OURS = `in (select oid from pg_class where relnamespace${OURS})`;

const OBJECTS = [
  `nspname, nspowner::regrole, nspacl
    from pg_namespace where oid${OURS}`,
  `oid::regclass, relkind, relowner::regrole, relacl, reloptions, relrowsecurity,
      case relkind when 'v' then pg_get_viewdef(oid) when 'i' then pg_get_indexdef(oid) end
    from pg_class where relnamespace${OURS}`,
  `attrelid::regclass, attnum, attname, format_type(atttypid, atttypmod), attacl,
      attcollation::regcollation, attnotnull, pg_get_expr(adbin, adrelid)
    from pg_attribute left join pg_attrdef on (adrelid, adnum) = (attrelid, attnum)
    where attrelid ${OF_OURS} and attnum > 0 and not attisdropped`,
  `conrelid::regclass, conname, pg_get_constraintdef(oid)
    from pg_constraint where connamespace${OURS}`,
  `pg_get_triggerdef(oid)
    from pg_trigger where tgrelid ${OF_OURS} and not tgisinternal`,
  `* from pg_policies where schemaname in ('public', 'billing')`,
  `oid::regprocedure, proowner::regrole, proacl, aggtransfn, aggtranstype::regtype,
      case prokind when 'f' then pg_get_functiondef(oid) end
    from pg_proc left join pg_aggregate on aggfnoid = oid where pronamespace${OURS}`,
  `oid::regtype, typowner::regrole, typacl, typtype
    from pg_type where typnamespace${OURS}`,
  `o.type, o.identity, description
    from pg_description, pg_identify_object(classoid, objoid, objsubid) as o
    where o.schema in ('public', 'billing')
      or (o.type, o.identity) = ('schema', 'billing')`,
].map((query) => `select to_jsonb(o)::text as object from (select ${query}) o`)
  .join(" union all ");

/**
 * Returns what is in schemas `public` and `billing`, with owners and rights. Two
 * databases have the same schema if these are equal.
 */
export async function schemaOf(sql: Pick<postgres.Sql, "unsafe">) {
  const objects = await sql.unsafe(`${OBJECTS} order by 1`);
  return objects.map(({ object }) => object);
}
