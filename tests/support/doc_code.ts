import { fencedBlocks } from "./fenced_blocks.ts";
import { readDoc } from "./sql_blocks.ts";

const TYPES = new URL(
  "../../supabase/functions/_shared/billing/database.types.ts",
  import.meta.url,
);

/** A page's TypeScript, one file per block, beside the generated types. */
export interface DocCode extends AsyncDisposable {
  /** Paths, in the page's order. */
  readonly files: readonly string[];
}

/** Writes the TypeScript of a page in `docs` into a folder of its own. */
export async function writeDocCode(page: string): Promise<DocCode> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-docs-" });
  await Deno.copyFile(TYPES, `${folder}/database.types.ts`);
  const blocks = fencedBlocks(await readDoc(page), { page, language: "ts" });
  const files = blocks.map(({ place }) =>
    `${folder}/${place.replace(":", "_line_").replace(".md", "")}.ts`
  );
  for (const [i, { text }] of blocks.entries()) {
    await Deno.writeTextFile(files[i]!, text);
  }
  return {
    files,
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
