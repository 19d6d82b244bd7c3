import type { Context } from "hono";
import type { FailureKey } from "./sql.ts";

/** Returns the fields of a form that are text. */
export async function readForm(
  c: Context,
): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries(
    Object.entries(await c.req.parseBody())
      .filter((field): field is [string, string] =>
        typeof field[1] === "string"
      ),
  );
}

/** Returns an answer of the SQL function without its advice for the SQL editor. */
export function firstSentences(answer: string): string {
  return answer.replace(/ (?:The worker|See:).*$/s, "");
}

/** Reads which failure a form or a URL is about. */
export function keyOf(field: (name: string) => string | undefined): FailureKey {
  return { provider: field("provider") ?? "", eventId: field("event") ?? "" };
}
