import postgres from "postgres";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import { setting } from "./test_environment.ts";

export function connect(max = 4): postgres.Sql {
  return postgres(setting("TEST_DATABASE_URL"), {
    max,
    onnotice() {},
    connection: { statement_timeout: HANG_LIMIT_MS },
  });
}

export type StoredEvent = Awaited<ReturnType<typeof storedEvent>>;

export async function storedEvent(sql: postgres.Sql, eventId: string) {
  const rowsOf = async (columns: string, table: string) => [
    ...await sql<Record<string, unknown>[]>`
      select ${sql.unsafe(columns)} from billing.${sql(table)}
      where event_id = ${eventId}`,
  ];
  const [ledger, failures, notifications] = await Promise.all([
    rowsOf("provider, type, outcome", "processed_events"),
    rowsOf("*", "failed_events"),
    rowsOf("*", "notifications"),
  ]);
  return { ledger, failures, notifications };
}

export async function rowCounts(
  sql: postgres.Sql,
): Promise<Record<string, number>> {
  const [row] = await sql`
    select
      (select count(*)::int from billing.subscriptions) as subscriptions,
      (select count(*)::int from billing.processed_events) as processed_events,
      (select count(*)::int from billing.failed_events) as failed_events,
      (select count(*)::int from billing.notifications) as notifications`;
  return { ...row };
}

export async function emptyTables(sql: postgres.Sql): Promise<void> {
  await sql`
    truncate billing.subscriptions, billing.processed_events,
      billing.failed_events, billing.alerts, billing.notifications,
      billing.pauses, billing.leases, billing.customers, billing.erasures,
      billing.grants, billing.sweeps, billing.missed_events`;
}

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
