/**
 * `deno task migration`: writes the newest migration from `supabase/schemas`, and the
 * types of a database that has it.
 *
 * The first migration has all files, after a check of the server and of names that are
 * taken. A later one begins with a handwritten part, which alters tables and types; its
 * generated part then replaces all views and functions.
 */
import { basename, join } from "node:path";
import { commandLine, reportEnd } from "../common/cli.ts";
import { REPOSITORY } from "../common/environment.ts";
import {
  runSupabaseCli,
  runTool,
  toolEnvironment,
} from "../local_stack/tools.ts";
import { startStack } from "../local_stack/stack.ts";

const SCHEMAS = join(REPOSITORY, "supabase/schemas");
const MIGRATIONS = join(REPOSITORY, "supabase/migrations");

/** In the order in which a database gets them. */
const SCHEMA_FILES: readonly string[] = Array.from(
  Deno.readDirSync(SCHEMAS),
  ({ name }) => join(SCHEMAS, name),
).sort();

export const FIRST = join(MIGRATIONS, "20261125000000_billing.sql");

export const MIGRATION = join(
  MIGRATIONS,
  Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name).sort().at(-1)!,
);

const MARK =
  '-- Write changes of tables and types above this line. "deno task migration" writes the rest.\n';

/** Statements that a later migration must not repeat. */
const MADE_ONCE =
  /^(?:create (?:table|type|index|constraint trigger)|insert into) [^]*?(?<!^\s*--.*);\n/gm;

/** Notes what a later migration finds in schema public, by its name in billing_14. */
const FOUND = `select set_config('billing.found', array(
  select 'public.' || relname from pg_class where relnamespace = 'public'::regnamespace
  union all
  select 'function public.' || proname from pg_proc where pronamespace = 'public'::regnamespace
)::text, false);
`;

/** Keeps the window open to users to whom an app has opened it, if it gains a column. */
const OPEN = `do $$
begin
  if has_column_privilege('authenticated', 'billing.subscriptions', 'id', 'select') then
    execute (
      select format(
        'grant select (%s) on billing.subscriptions to authenticated',
        string_agg(u.column_name, ', ')
      )
      from information_schema.view_column_usage u
      where u.view_name = 'billing_subscriptions' and u.table_schema = 'billing'
    );
  end if;
end;
$$;
`;

export const TYPES = join(
  REPOSITORY,
  "supabase/functions/_shared/billing/database/database.types.ts",
);

if (import.meta.main) {
  await writeMigration().catch((error) => Deno.exit(reportEnd(error)));
}

async function writeMigration(): Promise<void> {
  commandLine({
    usage: "migration",
    summary:
      "Writes the newest migration and the functions' types from supabase/schemas.",
    options: {},
  })(Deno.args);
  await Deno.writeTextFile(MIGRATION, await migrationText());
  console.log(`Wrote ${MIGRATION}`);

  const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-types-" });
  try {
    await using stack = await startStack({ dataDir, functions: false });
    await Deno.writeTextFile(TYPES, await generateTypes(stack.dbUrl));
    console.log(`Wrote ${TYPES}`);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
}

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
    return [handwritten + MARK, await replacementText()].join("\n");
  }

  return [
    `-- Written in the receiver's repository by "deno task migration", from supabase/schemas: edit those files there.\n`,
    refusal(files.join("")),
    files.join(""),
  ].join("\n");
}

/** Returns the part of a later migration that replaces views and functions. */
async function replacementText(): Promise<string> {
  const files = (await readSchemas()).slice(0, -1); // The last one is the user's.
  return [FOUND, ...files, OPEN].join("\n").replace(MADE_ONCE, "").replace(
    /^create (?=aggregate|function|trigger|view)/gm,
    "create or replace ",
  );
}

async function readSchemas(): Promise<string[]> {
  const texts = SCHEMA_FILES.map(async (file) => {
    const text = await Deno.readTextFile(file);
    return `-- supabase/schemas/${basename(file)}\n${text}`;
  });
  return await Promise.all(texts);
}

/**
 * Returns a statement that raises an error if the server is too old, or if schema
 * billing or a name in schema public is taken. The Supabase CLI prints the statement
 * with the error, so it is short; the CLI prints no hint, so the message says what to do.
 */
function refusal(schema: string): string {
  const all = new Set(schema.match(/\bpublic\.billing_\w+/g));
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
