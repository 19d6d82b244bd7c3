import { join } from "node:path";
import { toolEnvironment } from "../common/create_command.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { runTool } from "../common/run_tool.ts";
import { runSupabaseCli } from "../common/supabase_cli.ts";

/** The types of the database, for the functions. */
export const TYPES = join(
  REPOSITORY,
  "supabase/functions/_shared/billing/database.types.ts",
);

/**
 * Returns the types of a local database's schema public, made by the Supabase CLI
 * and formatted.
 *
 * @param databaseUrl with user and password
 */
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
