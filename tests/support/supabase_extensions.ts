/** Stand-ins for what Supabase's Postgres has and a plain one does not. */
const FOLDER = new URL("./extensions/", import.meta.url);

export const REALTIME_SQL = Deno.readTextFileSync(
  new URL("realtime.sql", FOLDER),
);

/**
 * As in the extensions' own control files; pg_net's names no schema. But for
 * `trusted`: Supabase lets the role postgres create them.
 */
const CONTROLS = [
  ["pg_cron", "1.6", "schema = pg_catalog"],
  ["pg_net", "0.19.5", ""],
  ["supabase_vault", "0.3.1", "schema = vault"],
] as const;

/**
 * Puts stand-ins for pg_cron, pg_net and Vault where a server finds them, which may be
 * running already, until they are disposed of.
 */
export async function installSupabaseExtensions(
  shareFolder: string,
): Promise<AsyncDisposable> {
  await using installed = new AsyncDisposableStack();
  for (const [name, version, schema] of CONTROLS) {
    const path = `${shareFolder}/extension/${name}`;
    const sql = await Deno.readTextFile(new URL(`${name}.sql`, FOLDER));
    const files = {
      [`${path}--${version}.sql`]: sql,
      [`${path}.control`]:
        `default_version = '${version}'\ntrusted = true\n${schema}\n`,
    };
    for (const [file, text] of Object.entries(files)) {
      await Deno.writeTextFile(file, text);
      installed.defer(() => Deno.remove(file));
    }
  }
  return installed.move();
}
