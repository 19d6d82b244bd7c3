import { basename } from "node:path";

const ROOT = new URL("../../", import.meta.url);
const TYPES = "supabase/functions/_shared/billing/database/database.types.ts";

interface Block {
  /** `app.md:42`, where it begins. */
  readonly place: string;
  readonly text: string;
}

export function readPage(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

export function pages(): string[] {
  return ["", "docs/", "skills/billing-webhook/"]
    .flatMap((folder) => filesIn(folder, ".md"));
}

export function fencedBlocks(
  markdown: string,
  { page, language }: { page: string; language: string },
): Block[] {
  const fence = new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, "gm");
  const found = markdown.matchAll(fence);
  return Array.from(found, ({ 1: indent = "", 2: text = "", index }) => ({
    place: placeOf(index, { markdown, page }),
    text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  }));
}

export function docCommands(): Block[] {
  return pages().flatMap((page) =>
    fencedBlocks(readPage(page), { page, language: "sh" })
      .flatMap(({ place, text }) =>
        text.replaceAll(/ *\\\n */g, " ").split("\n")
          .map((line) => ({ place, text: line.trim() }))
          .filter(({ text }) => text !== "" && !text.startsWith("#"))
      )
  );
}

export function sqlBlocks(
  markdown: string,
  page: string,
): { place: string; sql: string }[] {
  const found = markdown.matchAll(
    /^ *```sql\n([^]*?)^ *```$|`((?:select|notify)\s[^`]*;)`/gm,
  );
  return Array.from(found, ({ 1: fenced, 2: inline, index }) => ({
    place: placeOf(index, { markdown, page }),
    sql: fenced ?? inline ?? "",
  }));
}

export const SKILL = "skills/billing-webhook/SKILL.md";
export const SNIPPETS = "supabase/snippets/billing_triage.sql";

export function everySqlBlock(): ReturnType<typeof sqlBlocks> {
  const inPages = ["README.md", SKILL, ...filesIn("docs/", ".md")]
    .flatMap((path) => sqlBlocks(readPage(path), basename(path)));
  const snippets = readPage(SNIPPETS).split(/^(?=-- \d\. )/m).slice(1)
    .map((sql) => ({ place: `snippet ${sql.slice("-- ".length, 6)}`, sql }));
  return [...inPages, ...snippets];
}

export function handlersPage(): { handlers: string[]; test: string } {
  const page = "docs/handlers.md";
  const blocks = fencedBlocks(readPage(page), { page, language: "sql" })
    .map(({ text }) => text);
  const isTest = (text: string) => text.startsWith("begin;");
  return {
    handlers: blocks.filter((text) => !isTest(text)),
    test: blocks.find(isTest) ?? "",
  };
}

export function fillIn(
  sql: string,
  values: Readonly<Record<string, string>>,
): string {
  return sql.replaceAll(/<([a-z][a-z -]*)>/g, (placeholder, name) => {
    const value = values[name];
    if (value !== undefined) return value;
    throw new Error(`Cannot run: nothing stands for ${placeholder} in ${sql}`);
  });
}

export async function writeDocCode(
  pages: readonly string[],
): Promise<AsyncDisposable & { readonly files: readonly string[] }> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-docs-" });
  await Deno.copyFile(new URL(TYPES, ROOT), `${folder}/database.types.ts`);
  const files: string[] = [];
  for (const page of pages) {
    for (
      const { place, text } of fencedBlocks(readPage(page), {
        page: basename(page, ".md"),
        language: "ts",
      })
    ) {
      files.push(`${folder}/${place.replace(":", "_line_")}.ts`);
      await Deno.writeTextFile(files.at(-1)!, text);
    }
  }
  return {
    files,
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

function filesIn(folder: string, extension: string): string[] {
  return [...Deno.readDirSync(new URL(folder || ".", ROOT))]
    .filter(({ name }) => name.endsWith(extension))
    .map(({ name }) => folder + name).sort();
}

function placeOf(
  index: number,
  { markdown, page }: { markdown: string; page: string },
): string {
  return `${page}:${markdown.slice(0, index).split("\n").length}`;
}
