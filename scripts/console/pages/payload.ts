import { type ComparedLine, compareLines } from "../compare_lines.ts";
import type { Failure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { type PrettyJson, prettyJson } from "../json_text.ts";
import { link } from "../links.ts";
import { visibleJson } from "../visible.ts";

/** Of a payload on the page, in characters. The rest is in the download. */
const SHOWN = 64 * 1024;
/** Lines without a change that stay around one. */
const CONTEXT = 4;

/** The payload; if it was repaired, beside what was received. */
export function payloadSection(failure: Failure): Html {
  const { payload, original } = failure;
  if (payload === null) {
    return html`<p class="empty">The payload was deleted: payloads of resolved
    failures are kept for 30 days.</p>`;
  }
  if (original === null) {
    return html`${encodingNote(failure)}
    ${payloadText(payload)}${download(failure, "payload")}`;
  }
  return html`
    <p>It was repaired. The left side is what was received, the right side is
    what a retry applies.</p>
    ${encodingNote(failure)}
    ${comparison(original, payload)}
    ${download(failure, "payload", "Download the repaired payload")}
    ${download(failure, "original", "Download the received payload")}
  `;
}

function encodingNote({ payload_encoding }: Failure): Html {
  if (payload_encoding === "text") {
    return html`<p class="hint">Postgres cannot store this body as JSON, or only
    with numbers of more than 40 digits. So it is stored as text, in one JSON
    string.</p>`;
  }
  return payload_encoding === "base64"
    ? html`<p class="hint">The body is not text. These are its bytes as base64, in
    one JSON string.</p>`
    : html``;
}

function payloadText(json: string): Html {
  const { text, isCut } = shownText(json);
  return html`
    <pre class="payload" tabindex="0"
      aria-label="Payload">${text}</pre>${isCut ? cutNote(json) : ""}
  `;
}

function shownText(json: string): PrettyJson {
  const { text, isCut } = prettyJson(json, { maxLength: SHOWN });
  const visible = visibleJson(text);
  return {
    text: visible.slice(0, SHOWN),
    isCut: isCut || visible.length > SHOWN,
  };
}

function cutNote(json: string): Html {
  return html`
    <p
      class="hint">Only the beginning is shown, of ${json.length.toLocaleString(
        "en",
      )} characters. The download has all of it.</p>
  `;
}

function download(
  { provider, event_id }: Failure,
  which: "payload" | "original",
  text = "Download the payload",
): Html {
  return html`<p><a href="${
    link("/failure/payload", { provider, event: event_id, which })
  }" download>${text}</a></p>`;
}

function comparison(original: string, payload: string): Html {
  const [before, after] = [shownText(original), shownText(payload)];
  const rows = compareLines(before.text, after.text);
  if (rows === undefined) {
    return html`
      <h3>Received</h3>${payloadText(original)}
      <h3>Repaired</h3>${payloadText(payload)}
    `;
  }
  return html`
    <table class="comparison">
      <thead>
        <tr>
          <th scope="col">Received</th>
          <th scope="col">Repaired</th>
        </tr>
      </thead>
      <tbody>${folded(rows).map(comparedRow)}</tbody>
    </table>
    ${before.isCut || after.isCut ? cutNote(payload) : ""}
  `;
}

function comparedRow(row: ComparedLine | number): Html {
  if (typeof row === "number") {
    return html`
      <tr class="fold">
        <td colspan="2">${row} equal lines</td>
      </tr>
    `;
  }
  const { before, after, isSame } = row;
  const kind = isSame ? "same" : "changed";
  return html`<tr class="${kind}">${cell(before, "before")}${
    cell(after, "after")
  }</tr>`;
}

/** White space in a line counts, and in the cell around it does not. */
function cell(line: string | undefined, side: "before" | "after"): Html {
  return line === undefined
    ? html`<td class="none"></td>`
    : html`<td class="${side}"><span>${line}</span></td>`;
}

/** Replaces long runs of equal lines by their number. */
function folded(
  rows: readonly ComparedLine[],
): readonly (ComparedLine | number)[] {
  const near = new Set<number>();
  for (const [i, { isSame }] of rows.entries()) {
    if (isSame) continue;
    for (let j = i - CONTEXT; j <= i + CONTEXT; j++) near.add(j);
  }
  const result: (ComparedLine | number)[] = [];
  for (const [i, row] of rows.entries()) {
    const last = result.at(-1);
    if (near.has(i)) result.push(row);
    else if (typeof last === "number") result[result.length - 1] = last + 1;
    else result.push(1);
  }
  return result;
}
