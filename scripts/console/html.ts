import { html as template } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";

/** Markup in which everything from outside is escaped. */
export type Html = HtmlEscapedString;

/** What a template may contain; strings are escaped, undefined is nothing. */
export type HtmlValue =
  | Html
  | string
  | number
  | undefined
  | readonly HtmlValue[];

/**
 * Returns markup. Each value is escaped, also in an attribute, if the attribute
 * is in double quotes.
 */
export function html(
  strings: TemplateStringsArray,
  ...values: readonly HtmlValue[]
): Html {
  // It returns a promise only if a value is one.
  return template(strings, ...values) as Html;
}
