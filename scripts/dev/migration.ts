/**
 * `deno task migration`: lays out the tables in `supabase/schemas`, writes the newest
 * migration from these files, and the types of a database that has it. People read and
 * edit the schema files; a database gets the migrations.
 *
 * The first migration has all files, after a check of the server and of names that are
 * taken. A released migration is never changed. A later one begins with a handwritten
 * part, which alters tables and types; its generated part then replaces all views and
 * functions.
 */
import { basename, join } from "node:path";
import {
  type CommandLine,
  parseCommandLine,
  reportEnd,
} from "../common/cli.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { withDatabase } from "../local_stack/databases.ts";
import {
  runSupabaseCli,
  runTool,
  toolEnvironment,
} from "../local_stack/tools.ts";
import { startStack } from "../local_stack/stack.ts";
import { formatSql } from "./format_sql.ts";

const SCHEMAS = join(REPOSITORY, "supabase/schemas");
const MIGRATIONS = join(REPOSITORY, "supabase/migrations");

/** The schema files, in the order in which a database gets them. */
export const SCHEMA_FILES: readonly string[] = Array.from(
  Deno.readDirSync(SCHEMAS),
  ({ name }) => join(SCHEMAS, name),
).sort();

/** The migration of the first release. */
const FIRST = join(MIGRATIONS, "20261125000000_billing.sql");

/** The newest migration, which `deno task migration` writes. */
export const MIGRATION = join(
  MIGRATIONS,
  Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name).sort().at(-1)!,
);

const MARK =
  '-- Write changes of tables and types above this line. "deno task migration" writes the rest.\n';

/** Statements that a later migration must not repeat. */
const MADE_ONCE =
  /^(?:create (?:table|type|index)|insert into) [^]*?(?<!^\s*--.*);\n/gm;

/** Lists columns, indexes and constraints, one line each. */
const TABLES_SQL = `
  select concat_ws(' ', a.attrelid::regclass, a.attname,
    format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid))
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where c.relnamespace = 'billing'::regnamespace
    and (c.relkind in ('r', 'c') or c.relname = 'records')
    and a.attnum > 0 and not a.attisdropped
  union
  select indexdef from pg_indexes where schemaname = 'billing'
  union
  select concat_ws(' ', conrelid::regclass, pg_get_constraintdef(oid))
  from pg_constraint where connamespace = 'billing'::regnamespace`;

export const TYPES = join(
  REPOSITORY,
  "supabase/functions/_shared/billing/database/database.types.ts",
);

const COMMAND_LINE = {
  usage: "migration",
  summary:
    `Writes the newest migration and the functions' types from supabase/schemas.`,
  options: {},
} as const satisfies CommandLine;

if (import.meta.main) {
  try {
    parseCommandLine(Deno.args, COMMAND_LINE);
  } catch (error) {
    Deno.exit(reportEnd(error));
  }
  Deno.exit(await writeMigration());
}

async function writeMigration(): Promise<number> {
  await formatSchemas();
  const text = await migrationText();
  // At first, a later migration is applied without its generated part, to see what the
  // handwritten part lacks.
  const [handwritten = "", generated = ""] = text.split(MARK);
  await Deno.writeTextFile(MIGRATION, handwritten);

  const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-types-" });
  try {
    await using stack = await startStack({ dataDir, functions: false });
    await Deno.writeTextFile(MIGRATION, text);
    console.log(`Wrote ${MIGRATION}, the newest migration`);

    const faults = await differences(stack.dbUrl);
    if (faults.length > 0) {
      console.log(`Add these changes above the mark:\n${faults.join("\n")}`);
      return 1;
    }

    await withDatabase(stack.dbUrl, (sql) => sql.unsafe(generated).simple());
    await Deno.writeTextFile(TYPES, await generateTypes(stack.dbUrl));
    console.log(`Wrote ${TYPES}`);
    console.log("Next: deno task test tests/pgtap.test.ts");
    return 0;
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
}

/** Returns the types of schema public, made by the Supabase CLI and formatted. */
export async function generateTypes(databaseUrl: string): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-types-" });
  try {
    const remote = `--remote=${databaseUrl}?sslmode=disable`;
    const text = await runSupabaseCli(
      ["gen", "types", "--schema", "public", remote],
      { purpose: "make the types of the database", home: folder },
    );

    // Deno formats standard input once, but a file until nothing changes any more.
    const file = join(folder, "database.types.ts");
    await Deno.writeTextFile(file, text);
    await runTool({
      purpose: "format the types of the database",
      command: Deno.execPath(),
      args: ["fmt", "--no-config", "--quiet", file],
      env: toolEnvironment(),
      cwd: folder,
    });

    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

export async function migrationText(): Promise<string> {
  const files = await readSchemas();
  if (MIGRATION !== FIRST) {
    const [handwritten] = (await Deno.readTextFile(MIGRATION)).split(MARK);
    const replaced = files.slice(0, -1)
      .map((text) => text.replace(MADE_ONCE, ""));
    return [handwritten + MARK, ...replaced].join("\n");
  }

  return [
    `-- Written in the receiver's repository by "deno task migration", from supabase/schemas: edit those files there.\n`,
    refusal(files.join("")),
    files.join(""),
  ].join("\n");
}

async function formatSchemas(): Promise<void> {
  for (const file of SCHEMA_FILES) {
    await Deno.writeTextFile(file, formatSql(await Deno.readTextFile(file)));
  }
}

async function readSchemas(): Promise<string[]> {
  const texts = SCHEMA_FILES.map(async (file) => {
    const text = await Deno.readTextFile(file);
    return `-- supabase/schemas/${basename(file)}\n${text}`;
  });
  return await Promise.all(texts);
}

/**
 * Returns how the tables and types that the migrations create differ from those in the
 * schema files, one line per difference. The newest migration must still alter them.
 */
async function differences(dbUrl: string): Promise<string[]> {
  const files = await readSchemas();
  return await withDatabase(dbUrl, async (sql) => {
    const have = new Set((await sql.unsafe(TABLES_SQL).values()).flat());

    await sql`begin`;
    await sql`drop schema billing cascade`;
    await sql.unsafe(files.join("\n")).simple();
    const want = new Set((await sql.unsafe(TABLES_SQL).values()).flat());
    await sql`rollback`;

    const added = Array.from(want.difference(have), (line) => `  add ${line}`);
    const dropped = Array.from(
      have.difference(want),
      (line) => `  drop ${line}`,
    );
    return added.concat(dropped);
  });
}

/**
 * Returns a statement that raises an error, before anything is created, if the server is
 * too old, or if schema billing or a name in schema public is taken. An empty schema of
 * the same owner is not an error. The Supabase CLI prints the statement with the error,
 * so it is short; the CLI prints no hint, so the message says what to do.
 */
function refusal(schema: string): string {
  const created = schema.matchAll(
    /^create or replace (?:view|function) public\.(\w+)/gm,
  );
  const all = new Set(Array.from(created, ([, name]) => `public.${name}`));
  const names = [...all].sort().join(", ")
    .replace(/(.{75,}?,) /g, "$1\n        ");

  return `do $$
declare
  taken text;
begin
  if current_setting('server_version_num')::integer < 150000 then
    raise exception 'Nothing was created, because this is Postgres %, and the receiver needs 15 or later. Upgrade Postgres (dashboard, Project Settings, Infrastructure), and push again.',
      current_setting('server_version');
  end if;

  select string_agg(t.what, ', ' order by t.what) into taken
  from (
    select pg_describe_object(d.classid, d.objid, 0) as what
    from pg_depend d, pg_identify_object(d.classid, d.objid, 0) i
    where d.refclassid = 'pg_namespace'::regclass
      and (d.refobjid = to_regnamespace('billing') or split_part(i.identity, '(', 1) = any ('{
        ${names}
      }'))
    union
    select 'schema billing of ' || n.nspowner::regrole
    from pg_namespace n where n.nspname = 'billing' and n.nspowner <> current_user::regrole
  ) as t;
  if taken is not null then
    raise exception 'Nothing was created, because these names are taken: %. Rename or drop them, and push again.', taken;
  end if;
end;
$$;
`;
}
