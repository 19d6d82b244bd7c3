/**
 * As much of psql as the pages use: `psql <address> -c '<SQL>'`.
 *
 * @module
 */
import postgres from "postgres";

if (import.meta.main) {
  const [url, option, text, ...more] = Deno.args;
  if (!url || option !== "-c" || !text || more.length > 0) Deno.exit(64);
  const sql = postgres(url, { max: 1 });
  console.log(JSON.stringify(await sql.unsafe(text)));
  await sql.end();
}
