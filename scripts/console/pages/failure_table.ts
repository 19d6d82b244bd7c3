import type { ListedFailure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { failureLink, link } from "../links.ts";
import { timeElement } from "../time.ts";
import { visible } from "../visible.ts";
import { cardTable } from "./card_table.ts";
import { linked, shortened, stateBadge, value } from "./parts.ts";

/** In characters. The failure's page has all of it. */
const LONGEST_ERROR = 160;

/** A table of failures, or a text if there is none. */
export function failureTable(
  failures: readonly ListedFailure[],
  { caption, empty }: { caption: string; empty: Html },
): Html {
  if (failures.length === 0) return html`<p class="empty">${empty}</p>`;
  return cardTable(failures, {
    caption,
    columns: {
      Event: (row) =>
        html`${
          linked(row.event_id, (eventId) =>
            failureLink({
              provider: row.provider,
              eventId,
            }))
        }<br><span class="muted">${
          value(
            row.type,
          )
        }, provider ${
          visible(
            row.provider,
          )
        }</span>`,
      Error: (row) =>
        html`
          ${stateBadge(row)} <code>${visible(
            row.error_code,
          )}</code><br><span
            class="error-text">${visible(
              shortened(row.error, LONGEST_ERROR),
            )}</span>
        `,
      Subscription: (row) =>
        linked(row.subscription_id, (id) => link("/subscription", { id })),
      Attempts: (row) => row.attempts,
      "Last failed": (row) => timeElement(row.last_failed_at),
    },
  });
}
