/**
 * pgTAP on an embedded Postgres: puts the extension where the server finds it,
 * and runs test files with it.
 *
 * @module
 */
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import postgres from "postgres";

const ARCHIVE = new URL(
  "../../node_modules/@electric-sql/pglite-pgtap/dist/pgtap.tar.gz",
  import.meta.url,
);
const IN_ARCHIVE = "share/postgresql/extension/";
// The rest upgrades older versions, or is the same once more in parts.
const NEEDED = /^pgtap(\.control|--\d+\.\d+\.\d+\.sql)$/;
const BLOCK = 512;

/**
 * Unpacks pgTAP into a server's own copy of its files. The server may be
 * running already.
 *
 * @param shareFolder the server's share folder, which holds `extension`
 */
export async function installPgtap(shareFolder: string): Promise<void> {
  const archive = gunzipSync(await Deno.readFile(ARCHIVE));
  for (const { path, content } of tarFiles(archive)) {
    const name = path.startsWith(IN_ARCHIVE) ? basename(path) : "";
    if (!NEEDED.test(name)) continue;
    await Deno.writeFile(join(shareFolder, "extension", name), content);
  }
}

/**
 * Runs a pgTAP file, which begins a transaction and rolls it back.
 *
 * @param url the database, as a role that may create extensions in it
 * @returns the TAP lines, such as `ok 1 - ...` and `# Failed test ...`
 * @throws {Error} With Postgres' message, and the line in the file if there is one
 */
export async function runTap(url: string, file: URL): Promise<string[]> {
  const text = await Deno.readTextFile(file);
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    await sql`create extension if not exists pgtap with schema extensions`;
    const results = await sql.unsafe(text).simple();
    const rows = results.flat() as Record<string, unknown>[];
    return rows.flatMap((row) => String(Object.values(row)[0]).split("\n"));
  } catch (cause) {
    if (!(cause instanceof postgres.PostgresError)) throw cause;
    const before = text.slice(0, Number(cause.position ?? 0));
    const line = cause.position ? `, line ${before.split("\n").length}` : "";
    throw new Error(
      `Cannot finish ${
        basename(file.pathname)
      }${line}: ${cause.message} (${cause.code})\n${cause.where ?? ""}`,
      { cause },
    );
  } finally {
    await sql.end();
  }
}

/**
 * Returns what is wrong with the outcome of a test file: tests that failed, with
 * pgTAP's messages, and tests that were planned and did not run.
 */
export function tapFaults(lines: readonly string[]): string[] {
  const planned = lines.map((line) => /^1\.\.(\d+)$/.exec(line)?.[1])
    .find((count) => count !== undefined);
  const ran = lines.filter((line) => /^(not )?ok \d+/.test(line)).length;
  const faults = lines.filter((line) => /^(not ok|#)/.test(line));
  if (planned === undefined) faults.push("No plan: pgTAP did not run.");
  else if (Number(planned) !== ran) {
    faults.push(`${planned} tests were planned, and ${ran} ran.`);
  }
  return faults;
}

// POSIX.1-1988 "ustar": a header of one block, then the content in whole
// blocks. The names in this archive fit into the header's first field.
function* tarFiles(archive: Uint8Array) {
  const decoder = new TextDecoder();
  let at = 0;
  while (archive[at]) { // the end is a block of zeros
    const header = decoder.decode(archive.subarray(at, at + BLOCK));
    const path = header.slice(0, 100).replace(/\0.*/, "");
    const size = parseInt(header.slice(124, 136), 8);
    const start = at + BLOCK;
    yield { path, content: archive.subarray(start, start + size) };
    at = start + Math.ceil(size / BLOCK) * BLOCK;
  }
}
