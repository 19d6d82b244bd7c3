import { type Html, html } from "../html.ts";
import type { ProjectError } from "../refusal.ts";
import { visibleLines } from "../visible.ts";

/** The database could not answer: why, and what to do. */
export function troublePage({ message, hint }: ProjectError): Html {
  return html`
    <h1>The project did not answer as expected</h1>
    <p>${visibleLines(message)}</p>
    ${hint === ""
      ? ""
      : html`<p><strong>Do:</strong> ${visibleLines(hint)}</p>`}
    <p>Then reload this page.</p>
  `;
}

/** There is no such page, or no such row. */
export function missingPage(text: string): Html {
  return html`
    <h1>Not found</h1>
    <p>${text}</p>
    <p><a href="/">Overview</a></p>
  `;
}
