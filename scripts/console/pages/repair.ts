import type { Failure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { failureLink } from "../links.ts";
import { type FailureKey, repairSql } from "../sql.ts";
import { visible } from "../visible.ts";
import { statement } from "./parts.ts";

/** In characters. A longer statement is not shown: who copies that? */
const LONGEST_STATEMENT = 64 * 1024;

/** What is edited, and what was wrong with it when it was sent. */
export interface Draft {
  readonly text: string;
  /** Of the payload that the editing began with. */
  readonly hash: string;
  readonly faults: readonly string[];
  /** Above the faults. */
  readonly heading?: string;
}

/** The form in which a payload is edited. It begins with why the event failed. */
export function repairPage(
  { key, draft, failure }: {
    key: FailureKey;
    draft: Draft;
    failure?: Failure;
  },
  csrf: string,
): Html {
  const { provider, eventId } = key;
  const { text, hash, faults, heading = "" } = draft;
  return html`
    <p class="above"><a href="/failures">Failures</a> ›
    <a href="${failureLink(key)}">${visible(eventId)}</a></p>
    <h1>Repair the payload</h1>
    ${failure === undefined ? "" : html`
      <p>It failed with <code>${visible(failure.error_code)}</code>: ${visible(
        failure.error,
      )}</p>
    `}
    ${faults.length === 0 ? "" : html`
      <div class="notice bad" role="alert" id="faults">
        <h2>${heading}</h2>
        <ul>${faults.map((fault) => html`<li>${visible(fault)}</li>`)}</ul>
      </div>
    `}
    <form class="action wide" action="/failure/repair" method="post">
      <input type="hidden" name="csrf" value="${csrf}">
      <input type="hidden" name="provider" value="${provider}">
      <input type="hidden" name="event" value="${eventId}">
      <input type="hidden" name="hash" value="${hash}">
      <p class="field"><label for="text">Payload, as JSON</label>${textarea(
        draft,
      )}</p>
      <p class="hint">Saving changes nothing else: retry the event afterwards. What
      was received is kept.</p>
      ${text.length > LONGEST_STATEMENT ? "" : statement(
        repairSql(key, text.replaceAll("\r\n", "\n")),
        "The SQL that this runs, with the text as it is now",
      )}
      <div class="buttons">
        <button class="main">Check and save</button>
        <a href="${failureLink(key)}">Cancel</a>
      </div>
    </form>
  `;
}

function textarea({ text, faults }: Draft): Html {
  const marks = faults.length === 0 ? html`` : html`
    aria-invalid="true" aria-describedby="faults"
  `;
  return html`
    <textarea id="text" name="text" rows="24" spellcheck="false" autocomplete="off"
      wrap="off" required${marks}>${text}</textarea>
  `;
}
