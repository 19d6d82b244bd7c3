/**
 * As much of psql as the pages use: `psql <address> -c '<SQL>'`, and
 * `psql <address>` with SQL on standard input. It stops at the first error.
 */
import postgres from "postgres";

if (import.meta.main) {
  const [url, option, text, ...more] = Deno.args;
  const isUsage = url && more.length === 0 &&
    (option === undefined || (option === "-c" && text));
  if (!isUsage) Deno.exit(64);
  const sql = postgres(url, { max: 1 });
  const statements = text ?? await new Response(Deno.stdin.readable).text();
  console.log(JSON.stringify(await sql.unsafe(statements).simple()));
  await sql.end();
}
