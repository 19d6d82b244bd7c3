/** Bars under one heading: the events per second of each server. */
interface BarGroup {
  readonly heading: string;
  readonly bars: readonly { readonly title: string; readonly value: number }[];
}

const WIDTH = 760;
const LABEL = 200;
const ROW = 28;
const VALUE = 70;

const STYLE = `
.page { fill: #ffffff } text { fill: #1f2933 } .bar { fill: #a9b4bf } .ours { fill: #2fb37c } .head { font-weight: 600 }
@media (prefers-color-scheme: dark) { .page { fill: #0d1117 } text { fill: #e6edf3 } .bar { fill: #57616c } }`;

/**
 * Returns a bar chart as SVG. The first bar of each group is highlighted. It follows
 * the reader's light or dark mode.
 */
export function barChart(title: string, groups: readonly BarGroup[]): string {
  const values = groups.flatMap(({ bars }) => bars.map(({ value }) => value));
  const scale = (WIDTH - LABEL - VALUE) / Math.max(...values);
  const elements: string[] = [];
  let y = 26;

  for (const { heading, bars } of groups) {
    y += ROW;
    elements.push(text(heading, { x: 16, y, more: 'class="head"' }));

    for (const [i, { title, value }] of bars.entries()) {
      y += ROW;
      const width = Math.round(value * scale);
      const name = i === 0 ? "ours" : "bar";
      const top = y - 14;
      elements.push(
        text(title, { x: LABEL - 10, y, more: 'text-anchor="end"' }),
        `<rect class="${name}" x="${LABEL}" y="${top}" width="${width}" height="18"/>`,
        text(Math.round(value).toLocaleString("en"), {
          x: LABEL + width + 8,
          y,
        }),
      );
    }
  }

  const height = y + 20;
  const size =
    `viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="system-ui, sans-serif" font-size="13">
<style>${STYLE}</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>
${text(title, { x: 16, y: 26, more: 'class="head"' })}
${elements.join("")}
</svg>
`;
}

function text(content: string, at: { x: number; y: number; more?: string }) {
  return `<text x="${at.x}" y="${at.y}" ${at.more ?? ""}>${content}</text>`;
}
