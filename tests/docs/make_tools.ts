/**
 * Tools as they are on somebody's machine: Deno is this one, also where npx is
 * to fetch it, and psql what queries with the same address and SQL.
 */
export async function makeTools(folder: string): Promise<void> {
  const deno = Deno.execPath();
  const psql = new URL("psql.ts", import.meta.url).pathname;
  const tools = {
    deno: `exec '${deno}' "$@"`,
    npx: `[ "$1 $2" = "-y deno@${Deno.version.deno}" ] || exit 64
shift 2
exec '${deno}' "$@"`,
    psql: `exec '${deno}' run -A '${psql}' "$@"`,
  };
  for (const [name, script] of Object.entries(tools)) {
    await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\n${script}\n`, {
      mode: 0o755,
    });
  }
}
