/**
 * The settings in a project's `.env.example`: a block of the receiver's between
 * two lines that mark it. What stands around it is the project's.
 *
 * @module
 */
import { appended, lineEnd } from "./append.ts";
import { withLf } from "./fingerprint.ts";

/** Its path below `supabase/`. */
export const ENV_EXAMPLE = "functions/.env.example";

const BEGIN = "# billing-webhook begins. Brought up to date by add.";
const END = "# billing-webhook ends.";
const MARKED = new RegExp(`^(${BEGIN}\r?\n)([^]*?)(^${END}$)`, "m");

/**
 * Returns the receiver's settings in a file, with LF as line ends; undefined if
 * it has none.
 *
 * @param ours This version's settings: they count without the marks too, as in
 * a file that was copied by hand.
 */
export function envBlock(
  file: string | undefined,
  ours: string,
): string | undefined {
  const text = withLf(file ?? "");
  return MARKED.exec(text)?.[2] ??
    (text.includes(ours.trim()) ? ours : undefined);
}

/** Returns a file with these settings in place of the receiver's former ones. */
export function withEnvBlock(file: string | undefined, block: string): string {
  if (file === undefined || !MARKED.test(file)) {
    return appended(file ?? "", `${BEGIN}\n${block}${END}\n`);
  }
  const text = block.replaceAll("\n", lineEnd(file));
  return file.replace(
    MARKED,
    (_, begin: string, _old: string, end: string) => begin + text + end,
  );
}
