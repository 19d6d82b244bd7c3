import { supabaseCli } from "../../scripts/common/supabase_cli.ts";
import { CLI_ENVIRONMENT } from "./cli_environment.ts";

/**
 * Writes the tools that the docs use into a folder: `deno` is this Deno, also if
 * npx fetches it, `psql` runs the same SQL, and `supabase` is the pinned CLI.
 */
export async function makeTools(folder: string): Promise<void> {
  const deno = Deno.execPath();
  const psql = new URL("psql.ts", import.meta.url).pathname;
  const cli = supabaseCli();
  const supabase = [cli.command, ...cli.args].map((part) => `'${part}'`);
  const settings = Object.entries(CLI_ENVIRONMENT).map((pair) =>
    pair.join("=")
  );
  const tools = {
    deno: `exec '${deno}' "$@"`,
    npx: `[ "$1 $2" = "-y deno@${Deno.version.deno}" ] || exit 64
shift 2
exec '${deno}' "$@"`,
    supabase: `exec env ${[...settings, ...supabase].join(" ")} "$@"`,
    psql: `exec '${deno}' run -A '${psql}' "$@"`,
  };
  for (const [name, script] of Object.entries(tools)) {
    await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\n${script}\n`, {
      mode: 0o755,
    });
  }
}
