import type { Spread } from "./measure.ts";

/** A bar of the chart. */
interface Bar extends Spread {
  readonly name: string;
}

/** Bars under one heading. */
interface BarGroup {
  readonly heading: string;
  readonly bars: readonly Bar[];
}

const WIDTH = 760;
const LABEL = 280;
const ROW = 28;
const BAR = 18;
const HEADING = 30;
const TOP = 58;
const VALUE = 70;

const STYLE = `
.page { fill: #ffffff } text { fill: #1f2933; paint-order: stroke; stroke: #ffffff; stroke-width: 3px } .quiet { fill: #5b6773 }
.bar { fill: #a9b4bf } .ours { fill: #2fb37c } .range { stroke: #1f2933 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } text { fill: #e6edf3; stroke: #0d1117 } .quiet { fill: #9aa7b4 }
.bar { fill: #57616c } .ours { fill: #2fb37c } .range { stroke: #e6edf3 }
}`;

/**
 * Returns a bar chart as SVG: medians as bars, ranges as lines. The first bar
 * of each group is highlighted. Text and background follow the reader's light or
 * dark mode together.
 */
export function barChart(
  groups: readonly BarGroup[],
  { title, unit }: { title: string; unit: string },
): string {
  const most = Math.max(
    ...groups.flatMap(({ bars }) => bars.map(({ max }) => max)),
  );
  const scale = (WIDTH - LABEL - VALUE) / most;
  const parts: string[] = [];
  let y = TOP;
  for (const { heading, bars } of groups) {
    parts.push(text(heading, { x: 16, y: y + 18, more: `font-weight="600"` }));
    y += HEADING;
    for (const [i, bar] of bars.entries()) {
      parts.push(drawBar(bar, { y, scale, isOurs: i === 0 }));
      y += ROW;
    }
  }
  const height = y + 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif" font-size="13">
<style>${STYLE}</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>
${text(title, { x: 16, y: 26, more: `font-size="16" font-weight="600"` })}
${
    text(`${unit}; bars are medians, lines ranges`, {
      x: 16,
      y: 46,
      more: `class="quiet"`,
    })
  }
${parts.join("\n")}
</svg>
`;
}

function drawBar(
  { name, median, min, max }: Bar,
  { y, scale, isOurs }: { y: number; scale: number; isOurs: boolean },
): string {
  const middle = y + BAR / 2;
  const end = LABEL + max * scale;
  return [
    text(name, { x: LABEL - 10, y: y + 14, more: `text-anchor="end"` }),
    `<rect class="${isOurs ? "ours" : "bar"}" x="${LABEL}" y="${y}" width="${
      at(median * scale)
    }" height="${BAR}"/>`,
    `<line class="range" x1="${at(LABEL + min * scale)}" x2="${
      at(end)
    }" y1="${middle}" y2="${middle}" stroke-width="2"/>`,
    text(Math.round(median).toLocaleString("en"), {
      x: Number(at(end + 8)),
      y: y + 14,
    }),
  ].join("");
}

function text(
  content: string,
  { x, y, more = "" }: { x: number; y: number; more?: string },
): string {
  const escaped = content.replace(
    /[&<>"]/g,
    (character) => `&#${character.charCodeAt(0)};`,
  );
  return `<text x="${x}" y="${y}" ${more}>${escaped}</text>`;
}

function at(number: number): string {
  return number.toFixed(1);
}
