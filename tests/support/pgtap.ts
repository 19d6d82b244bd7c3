/** Runs the pgTAP tests, every `*.test.sql`. */
import { assert, assertEquals } from "@std/assert";
import postgres from "postgres";
import { createCommand } from "../../scripts/common/processes.ts";
import { REPOSITORY } from "../../scripts/common/environment.ts";
import { installSupabaseExtensions } from "./supabase_extensions.ts";

const FOLDER = `${REPOSITORY}/supabase/tests`;
const HELPERS = new URL("pgtap_helpers.sql", import.meta.url);
/** pgTAP, in folders as they are below the server's own. */
const ARCHIVE =
  `${REPOSITORY}/node_modules/@electric-sql/pglite-pgtap/dist/pgtap.tar.gz`;

const files = [...Deno.readDirSync(FOLDER)]
  .map(({ name }) => name)
  .filter((name) => name.endsWith(".test.sql"))
  .sort();
assert(files.includes("privileges.test.sql"), "supabase/tests has no tests");

/** Makes a test of each file with such a name; `url` is asked when it runs. */
export function testSql(
  where: string,
  url: () => string,
  names: RegExp = /./,
): void {
  for (const name of files.filter((name) => names.test(name))) {
    Deno.test(`${name} passes ${where}`, async () => {
      const text = await Deno.readTextFile(`${FOLDER}/${name}`);
      const lines = await runTap(url(), text);
      assertEquals(lines.filter((line) => /^(not ok|#)/.test(line)), []);
      const ran = lines.filter((line) => /^ok \d+/.test(line));
      assertEquals(lines.filter((line) => /^1\.\./.test(line)), [
        `1..${ran.length}`,
      ]);
    });
  }
}

/**
 * Puts pgTAP where a server finds it, and stand-ins for Supabase's extensions, until
 * these are disposed of.
 */
export async function installPgtap(
  shareFolder: string,
): Promise<AsyncDisposable> {
  const { success } = await createCommand("tar", {
    args: ["-xzf", ARCHIVE, "--no-same-owner", "-C", `${shareFolder}/../..`],
  }).output();
  assert(success, "pgTAP is not unpacked");
  return await installSupabaseExtensions(shareFolder);
}

async function runTap(url: string, text: string): Promise<string[]> {
  const connection = { TimeZone: "UTC" };
  const sql = postgres(url, { max: 1, onnotice() {}, connection });
  try {
    await sql`create extension if not exists pgtap with schema extensions`;
    await sql.unsafe(await Deno.readTextFile(HELPERS)).simple();
    const results = await sql.unsafe(text).simple();
    const rows = results.flat() as Record<string, unknown>[];
    return rows.flatMap((row) => String(Object.values(row)[0]).split("\n"));
  } catch (cause) {
    if (!(cause instanceof postgres.PostgresError)) throw cause;
    const { position, message, code, where = "" } = cause;
    const line = text.slice(0, Number(position ?? 0)).split("\n").length;
    throw new Error(`Line ${line}: ${message} (${code})\n${where}`, { cause });
  } finally {
    await sql.end();
  }
}
