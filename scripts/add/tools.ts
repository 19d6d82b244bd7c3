/** What the project's own tools need, where the head of a built file cannot help. */
import { join, relative, resolve } from "node:path";
import { run } from "./git.ts";
import { readText } from "./project.ts";

/**
 * The tools' files, and what names and texts of these match if a tool `needs` its
 * line, and if it `has` it, or another one like it.
 */
const TOOLS = [
  {
    // oxfmt reads the same file.
    what: "Prettier: add this line to .prettierignore",
    files: /^\.?(oxfmt|prettier)|^package\.json$/,
    needs: /^\.?(oxfmt|prettier)(rc|\.config)|"(oxfmt|prettier)":/m,
    has: /supabase(\/\**)?$|supabase\/.*billing/m,
    line: "supabase/**/billing[.-][jw]*",
  },
  {
    what: 'deno fmt: add to "exclude" in deno.json',
    files: /^deno\.jsonc?$/,
    needs: /^deno(?![^]*"useTabs": *true)/,
    has: /supabase(\/\**)?"(?!:)|supabase\/billing\.json/,
    line: "supabase/billing.json",
  },
  {
    what: 'Biome: add to "files.includes" in biome.json, behind "**"',
    files: /^\.?biome\.jsonc?$/,
    needs: /"indentStyle": *"space"/,
    has: /supabase(\/\**)?"(?!:)|supabase\/billing\.json/,
    line: "!supabase/billing.json",
  },
  {
    what: "ESLint: add to globalIgnores in eslint.config",
    files: /^eslint\.config\./,
    needs: /projectService|\bproject:|unicorn|eslint-comments/,
    has: /supabase(\/functions)?(\/\**)?["'](?!:)|functions\/billing-/,
    line: "supabase/functions/billing-{webhook,worker}/**",
  },
] as const;

/** A tool's files may be in the project's folder, or above it in the repository. */
export async function toolNotes(project: string): Promise<string[]> {
  const { text: prefix } = await run(project, "rev-parse", "--show-prefix");
  const notes: string[] = [];

  for (const up of prefix.split("/").keys()) {
    const folder = resolve(project, "../".repeat(up));
    const where = up > 0 ? ` (in ${folder})` : "";
    const entries = await Array.fromAsync(Deno.readDir(folder));

    for (const { what, files, needs, has, line } of TOOLS) {
      let said = "";
      for (const { name: file } of entries) {
        if (!files.test(file)) continue;
        said += `${file}\n${await readText(join(folder, file))}\n`;
      }
      if (!needs.test(said) || has.test(said)) continue;

      const supabase = join(relative(folder, project), "supabase");
      const copied = line.replace("supabase", supabase);
      notes.push(`${what}${where}:\n  ${copied}`);
    }
  }
  return notes;
}
