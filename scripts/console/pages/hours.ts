import { type HourCount, OUTCOMES } from "../hour_counts.ts";
import { type Html, html } from "../html.ts";

/**
 * The chart of events per hour. It is an image of its own, so that the page does
 * not wait for the count.
 */
export function chartFigure(): Html {
  return html`
    <figure class="chart">
      <p class="legend">${OUTCOMES.map((outcome) =>
        html`<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="${outcome}" width="10" height="10"/></svg> ${outcome}</span>`
      )}</p>
      <picture><source media="(prefers-color-scheme: dark)" srcset="/hours.svg?scheme=dark"><img class="plot" src="/hours.svg" alt="Bars: events per hour of the last three days. The same numbers are in the table."></picture>
      <div
        class="axis"><span>3 days ago</span><span>2 days ago</span><span>yesterday</span><span>now</span></div>
    </figure>
  `;
}

/** The chart with its numbers. */
export function hoursPage(hours: readonly HourCount[]): Html {
  return html`
    <h1>Events per hour, last three days</h1>
    ${chartFigure()} ${hourTable(hours)}
  `;
}

function hourTable(hours: readonly HourCount[]): Html {
  const busy = hours.filter((hour) =>
    OUTCOMES.some((outcome) => hour[outcome] > 0)
  ).toReversed();
  if (busy.length === 0) {
    return html`<p class="empty">No event arrived in these days.</p>`;
  }
  return html`
    <table>
      <caption class="for-readers">Events per hour, the newest hour first</caption>
      <thead>
        <tr><th scope="col">Hour (UTC)</th>${OUTCOMES.map((outcome) =>
          html`<th scope="col" class="number">${outcome}</th>`
        )}</tr>
      </thead>
      <tbody>${busy.map((hour) =>
        html`<tr><th scope="row">${
          hour.hour.slice(0, 16).replace("T", " ")
        }</th>${
          OUTCOMES.map((outcome) =>
            html`<td class="number">${hour[outcome].toLocaleString("en")}</td>`
          )
        }</tr>`
      )}</tbody>
    </table>
  `;
}
