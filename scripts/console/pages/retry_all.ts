import { type FailureFilter, filterFields } from "../failure_filter.ts";
import { type Html, html } from "../html.ts";
import { link } from "../links.ts";
import { retryAllSql } from "../sql.ts";
import { formatTime } from "../time.ts";
import { statement } from "./parts.ts";

/** Asks whether to retry all that match, and says how many these are. */
export function retryAllPage(
  { filter, count, csrf }: {
    filter: FailureFilter;
    count: number;
    csrf: string;
  },
): Html {
  const fields = filterFields({ ...filter, state: "open" });
  const conditions = [
    filter.code === undefined
      ? []
      : html`error code <code>${filter.code}</code>`,
    filter.type === undefined
      ? []
      : html`event type <code>${filter.type}</code>`,
    filter.since === undefined
      ? []
      : html`last failed since ${formatTime(filter.since)}`,
    filter.until === undefined
      ? []
      : html`last failed before ${formatTime(filter.until)}`,
  ].flat();
  return html`
    <h1>Retry ${count === 1
      ? "1 open failure"
      : `${count.toLocaleString("en")} open failures`}</h1>
    ${conditions.length === 0
      ? html`<p>All that are open, in the order in which the events occurred.</p>`
      : html`
        <p>Those that match, in the order in which the events occurred:</p>
        <ul>${conditions.map((condition) => html`<li>${condition}</li>`)}</ul>
      `}
    <p>Nothing is applied twice: a retry goes through the same ledger as a
    delivery. Failures whose payload was pruned are left out.</p>
    <form class="action" action="/failures/retry" method="post">
      <input type="hidden" name="csrf" value="${csrf}">
      ${Object.entries(fields).map(([name, value]) =>
        html`<input type="hidden" name="${name}" value="${value}">`
      )}
      ${statement(retryAllSql(filter))}
      <div class="buttons">
        ${count > 0
          ? html`<button class="main">Retry ${
            count.toLocaleString(
              "en",
            )
          }</button>`
          : ""}
        <a href="${link("/failures", fields)}">Back to the list</a>
      </div>
    </form>
  `;
}
