import type { HourCount } from "../hour_count.ts";
import { type Html, html } from "../html.ts";

const OUTCOMES = ["applied", "stale", "failed"] as const;
const WIDTH = 720;
const HEIGHT = 160;

/**
 * A bar per hour as SVG, the outcomes on top of each other. It is stretched to
 * the page, so its texts are HTML around it.
 */
export function hourChart(hours: readonly HourCount[]): Html {
  const most = niceCeiling(Math.max(1, ...hours.map(sumOf)));
  const width = WIDTH / hours.length;
  const bars = hours.map((hour, i) => {
    let y = HEIGHT;
    const parts = OUTCOMES.filter((outcome) => hour[outcome] > 0).map(
      (outcome) => {
        // Two units at least: one failure beside a thousand must be visible.
        const height = Math.max(2, hour[outcome] / most * HEIGHT);
        y -= height;
        return html`
          <rect class="${outcome}" x="${round(i * width + 1)}" y="${round(
            y,
          )}" width="${round(width - 2)}"
            height="${round(height)}" />
        `;
      },
    );
    return html`<g><title>${titleOf(hour)}</title><rect class="hit" x="${
      round(i * width)
    }" y="0" width="${round(width)}" height="${HEIGHT}"/>${parts}</g>`;
  });
  return html`<figure class="chart">
<p class="legend">${
    OUTCOMES.map((outcome) =>
      html`<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="${outcome}" width="10" height="10"/></svg> ${outcome}</span>`
    )
  }</p>
<div class="plot">
<span class="most">${most.toLocaleString("en")}</span>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${
    chartLabel(hours)
  }">
<line class="grid" x1="0" x2="${WIDTH}" y1="0.5" y2="0.5"/><line class="grid" x1="0" x2="${WIDTH}" y1="${
    HEIGHT / 2
  }" y2="${HEIGHT / 2}"/><line class="grid" x1="0" x2="${WIDTH}" y1="${
    HEIGHT - 0.5
  }" y2="${HEIGHT - 0.5}"/>
${bars}
</svg>
<div class="axis"><span>3 days ago</span><span>2 days ago</span><span>yesterday</span><span>now</span></div>
</div>
${hourTable(hours)}
</figure>`;
}

function hourTable(hours: readonly HourCount[]): Html {
  const busy = hours.filter((hour) => sumOf(hour) > 0).toReversed();
  if (busy.length === 0) return html``;
  return html`
    <details>
      <summary>The same as a table</summary>
      <table>
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
              html`<td class="number">${
                hour[outcome].toLocaleString("en")
              }</td>`
            )
          }</tr>`
        )}</tbody>
      </table>
    </details>
  `;
}

function chartLabel(hours: readonly HourCount[]): string {
  const sums = OUTCOMES.map((outcome) =>
    `${
      hours.reduce((sum, hour) => sum + hour[outcome], 0).toLocaleString("en")
    } ${outcome}`
  );
  return `Events per hour of the last three days: ${sums.join(", ")}`;
}

function titleOf(hour: HourCount): string {
  const counts = OUTCOMES.filter((outcome) => hour[outcome] > 0)
    .map((outcome) => `${hour[outcome].toLocaleString("en")} ${outcome}`);
  return `${hour.hour.slice(0, 16).replace("T", " ")} UTC: ${
    counts.join(", ") || "none"
  }`;
}

function sumOf({ applied, stale, failed }: HourCount): number {
  return applied + stale + failed;
}

/** The next number of the form 1, 2 or 5 times a power of ten. */
function niceCeiling(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((factor) => factor * power)
    .find((candidate) => candidate >= most)!;
}

function round(length: number): string {
  return length.toFixed(2);
}
