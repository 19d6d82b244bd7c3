/**
 * `deno task migration`: writes the migration, which is the files of
 * `supabase/schemas` one after the other, behind a check for names that are taken;
 * and the types of a database that it makes. People read and edit the files; a
 * database gets the migration.
 */
import { join } from "node:path";
import { REPOSITORY } from "../common/how_started.ts";
import {
  runSupabaseCli,
  runTool,
  toolEnvironment,
} from "../local_stack/tools.ts";
import { startStack } from "../local_stack/stack.ts";

const SCHEMAS = join(REPOSITORY, "supabase/schemas");

/** The migration. Its version is that of the first release. */
export const MIGRATION = join(
  REPOSITORY,
  "supabase/migrations/20261125000000_billing.sql",
);

export const TYPES = join(
  REPOSITORY,
  "supabase/functions/_shared/billing/database.types.ts",
);

if (import.meta.main) {
  await Deno.writeTextFile(MIGRATION, await migrationText());
  console.log(`Wrote ${MIGRATION}`);
  const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-types-" });
  try {
    await using stack = await startStack({ dataDir, functions: false });
    await Deno.writeTextFile(TYPES, await generateTypes(stack.dbUrl));
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
  console.log(`Wrote ${TYPES}`);
  console.log("Next: deno task test tests/pgtap.test.ts");
  Deno.exit();
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
    // In a file: text on standard input is formatted once, a file until it stays.
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

/** Returns the text of the migration. */
export async function migrationText(): Promise<string> {
  const names = [];
  for await (const { name } of Deno.readDir(SCHEMAS)) names.push(name);
  const files = await Promise.all(
    names.sort().map(async (name) =>
      `-- supabase/schemas/${name}\n\n${await Deno.readTextFile(
        join(SCHEMAS, name),
      )}`
    ),
  );
  return [
    `-- Written by "deno task migration" from supabase/schemas: edit those files.\n`,
    checkOfNames(files.join("")),
    ...files,
  ].join("\n");
}

/**
 * Returns the statement that refuses before anything is created, if a name in
 * schema public or the schema billing is taken. The Supabase CLI prints it with
 * the error, so it is short. An empty schema of the same owner is taken over.
 */
function checkOfNames(schema: string): string {
  const created = schema.matchAll(
    /^create or replace (?:view|function) public\.(\w+)/gm,
  );
  const names = [...new Set(Array.from(created, ([, name]) => name))].sort();
  return `do $$
declare
  taken text;
begin
  select string_agg(t.what, ', ' order by t.what) into taken
  from (
    select pg_describe_object(d.classid, d.objid, 0) as what
    from pg_depend d, pg_identify_object(d.classid, d.objid, 0) i
    where d.refclassid = 'pg_namespace'::regclass
      and (d.refobjid = to_regnamespace('billing') or split_part(i.identity, '(', 1) = any ('{
        public.${names.join(",\n        public.")}
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
