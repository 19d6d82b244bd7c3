/**
 * Small parts that several pages share.
 *
 * @module
 */
import { type Html, html } from "../html.ts";
import type { ListedFailure } from "../failures.ts";
import { visible } from "../visible.ts";

// In characters, as Postgres counts.

/** The receiver accepts no longer one, but stores what it refuses. */
const LONGEST_ID = 255;
/** As long as the reason for a resolution may be. */
const LONGEST_VALUE = 1_000;

/** An ID that leads to a page, unless no record can have it; a dash if there is none. */
export function linked(
  id: string | null,
  hrefOf: (id: string) => string,
): Html {
  if (id === null) return dash();
  const shown = shortened(id, LONGEST_ID);
  if (shown !== id) return visible(shown);
  return html`<a class="id" href="${hrefOf(id)}">${visible(id)}</a>`;
}

/** A value from outside; a dash if there is none. */
export function value(text: string | number | null | undefined): Html {
  if (text === null || text === undefined) return dash();
  return visible(shortened(String(text), LONGEST_VALUE));
}

/** Stands for what is not there. */
function dash(): Html {
  return html`<span class="muted">–</span>`;
}

/** A list of names and values. */
export function facts(entries: readonly (readonly [string, Html])[]): Html {
  return html`<dl class="facts">${
    entries.map(([name, content]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd>${content}</dd>
        </div>
      `
    )
  }</dl>`;
}

/** The statement that an action runs, for the SQL editor. */
export function statement(
  sql: string,
  summary = "The SQL that this runs",
): Html {
  return html`
    <details class="statement">
      <summary>${summary}</summary>
      <pre class="copyable" tabindex="0">${sql}</pre>
    </details>
  `;
}

/** Says whether a failure is open, with a word and a color. */
export function stateBadge(
  { resolved_at, resolution, retry_requested_at }: Pick<
    ListedFailure,
    "resolved_at" | "resolution" | "retry_requested_at"
  >,
): Html {
  if (resolved_at !== null) {
    return html`<span class="badge good">resolved: ${resolution ?? ""}</span>`;
  }
  return retry_requested_at === null
    ? html`<span class="badge bad">open</span>`
    : html`<span class="badge wait">retry requested</span>`;
}

/** Cuts a text after so many characters, of one or two units each. */
export function shortened(text: string, length: number): string {
  // A character more at least, if there is one. Texts may be very long.
  const characters = [...text.slice(0, 2 * length + 1)];
  return characters.length > length
    ? `${characters.slice(0, length).join("")}…`
    : text;
}
