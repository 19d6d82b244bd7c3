import type { ListedFailure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { failureLink, link } from "../links.ts";
import { timeElement } from "../time.ts";
import { visible } from "../visible.ts";
import { linked, shortened, stateBadge, value } from "./parts.ts";

/** In characters. The failure's page has all of it. */
const LONGEST_ERROR = 160;

/** A table of failures, or a text if there is none. */
export function failureTable(
  failures: readonly ListedFailure[],
  { caption, empty }: { caption: string; empty: Html },
): Html {
  if (failures.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`
    <table class="cards">
      <caption class="for-readers">${caption}</caption>
      <thead>
        <tr>
          <th scope="col">Event</th>
          <th scope="col">Error</th>
          <th scope="col">Subscription</th>
          <th scope="col">Attempts</th>
          <th scope="col">Last failed</th>
        </tr>
      </thead>
      <tbody>${failures.map((row) =>
        html`
          <tr>
            <td
              data-label="Event">${linked(row.event_id, (eventId) =>
                failureLink({
                  provider: row.provider,
                  eventId,
                }))}<br><span class="muted">${value(
                  row.type,
                )}, provider ${visible(
                  row.provider,
                )}</span></td>
            <td
              data-label="Error">${stateBadge(row)} <code>${visible(
                row.error_code,
              )}</code><br><span class="error-text">${visible(
                shortened(row.error, LONGEST_ERROR),
              )}</span></td>
            <td data-label="Subscription">${linked(
              row.subscription_id,
              (id) => link("/subscription", { id }),
            )}</td>
            <td data-label="Attempts" class="number">${row.attempts}</td>
            <td data-label="Last failed">${timeElement(row.last_failed_at)}</td>
          </tr>
        `
      )}</tbody>
    </table>
  `;
}
