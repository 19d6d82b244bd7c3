import { join } from "node:path";

const FOLDER = new URL("./extensions/", import.meta.url);

/**
 * Puts stand-ins for pg_cron, pg_net and Vault where a server finds them, so
 * that `create extension` takes them, until they are disposed of. The server
 * may be running already.
 *
 * @param shareFolder the server's share folder, which holds `extension`
 */
export async function installSupabaseExtensions(
  shareFolder: string,
): Promise<AsyncDisposable> {
  const copies: string[] = [];
  for await (const { name } of Deno.readDir(FOLDER)) {
    const copy = join(shareFolder, "extension", name);
    await Deno.copyFile(new URL(name, FOLDER), copy);
    copies.push(copy);
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const copy of copies) await Deno.remove(copy);
    },
  };
}
