/**
 * As much of psql as the pages use: SQL from `-c '<SQL>'`, `-f <file>` or standard input.
 * It stops at the first error, as psql does with `-v ON_ERROR_STOP=1`.
 */
import { parseArgs } from "node:util";
import postgres from "postgres";

if (import.meta.main) {
  const { values, positionals: [url] } = parseArgs({
    allowPositionals: true,
    options: {
      command: { type: "string", short: "c" },
      file: { type: "string", short: "f" },
      set: { type: "string", short: "v" },
    },
  });
  if (url === undefined) Deno.exit(64);
  const statements = values.command ??
    (values.file === undefined
      ? await new Response(Deno.stdin.readable).text()
      : await Deno.readTextFile(values.file));
  const sql = postgres(url, { max: 1 });
  console.log(JSON.stringify(await sql.unsafe(statements).simple()));
  await sql.end();
}
