/** A bar of the chart. */
export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
}

const WIDTH = 760;
const LABEL = 260;
const ROW = 34;
const TOP = 56;

/**
 * A bar chart as SVG: medians as bars, ranges as lines. It has a background of
 * its own, so that it can be read in dark pages too.
 */
export function barChart(
  bars: readonly Bar[],
  { title, unit }: { title: string; unit: string },
): string {
  const most = Math.max(...bars.map(({ max }) => max));
  const scale = (WIDTH - LABEL - 100) / most;
  const height = TOP + bars.length * ROW + 16;
  const rows = bars.map(({ name, value, min, max }, i) => {
    const y = TOP + i * ROW;
    const middle = y + 11;
    const end = LABEL + max * scale;
    return [
      `<text x="${LABEL - 10}" y="${y + 15}" text-anchor="end">${
        escapeXml(name)
      }</text>`,
      `<rect x="${LABEL}" y="${y}" width="${
        (value * scale).toFixed(1)
      }" height="22" fill="${i === 0 ? "#3ecf8e" : "#b8c2cc"}"/>`,
      `<line x1="${(LABEL + min * scale).toFixed(1)}" x2="${
        end.toFixed(1)
      }" y1="${middle}" y2="${middle}" stroke="#334" stroke-width="2"/>`,
      `<text x="${(end + 8).toFixed(1)}" y="${y + 15}">${
        Math.round(value).toLocaleString("en")
      }</text>`,
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif" font-size="13" fill="#223">
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
<text x="16" y="26" font-size="16" font-weight="bold">${escapeXml(title)}</text>
<text x="16" y="44" fill="#667">${
    escapeXml(unit)
  }; bars are medians, lines ranges</text>
${rows.join("\n")}
</svg>
`;
}

function escapeXml(text: string): string {
  return text.replace(
    /[&<>"]/g,
    (character) => `&#${character.charCodeAt(0)};`,
  );
}
