/** Lays out the SQL of `supabase/schemas`, as far as a formatter can. */
import { format } from "sql-formatter";

/** The most columns of a line. */
export const SQL_WIDTH = 100;

/** Stands for a blank line, which the formatter would remove. */
const BLANK = "--¶";

/**
 * Lays out the tables, types and indexes of a schema file. Everything else is laid out by
 * hand: the formatter would write the head of a function on one line.
 */
export function formatSql(text: string): string {
  return text.replace(
    /^create (?:table|type|index) [^]*?(?<!^\s*--.*);$/gm,
    (statement) => {
      const marked = statement.replace(/\n\n/g, `\n${BLANK}\n`);
      const laidOut = format(marked, {
        language: "postgresql",
        expressionWidth: SQL_WIDTH / 2,
      });
      return laidOut.replace(new RegExp(`^\\s*${BLANK}$`, "gm"), "");
    },
  );
}
