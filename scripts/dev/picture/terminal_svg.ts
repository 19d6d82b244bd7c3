import type { Style } from "../../live_view/format_entry.ts";

/** A part of a line. */
export interface Span {
  readonly style: Style | undefined;
  readonly text: string;
}

const COLUMN = 9;
const ROW = 22;
const FONT = 14.5;
const MARGIN = 18;
const BAR = 38;

/** On the light and on the dark background, at 4.5 to 1 or more. */
const COLORS: Readonly<Record<Style | "plain" | "back" | "line", string[]>> = {
  plain: ["#1f2328", "#e6edf3"],
  dim: ["#59636e", "#9198a1"],
  green: ["#116329", "#56d364"],
  yellow: ["#7d4e00", "#e3b341"],
  red: ["#b31d28", "#ff7b72"],
  cyan: ["#0550ae", "#79c0ff"],
  back: ["#ffffff", "#0d1117"],
  line: ["#d1d9e0", "#3d444d"],
};

/**
 * Returns a picture of a terminal as SVG. Its text is text, and its colours
 * follow the reader's light or dark mode.
 *
 * @param options.columns The terminal's width, in characters.
 */
export function terminalSvg(
  lines: readonly (readonly Span[])[],
  { title, columns }: { readonly title: string; readonly columns: number },
): string {
  const width = 2 * MARGIN + columns * COLUMN;
  const height = BAR + MARGIN + lines.length * ROW;
  const rows = lines.map((line, i) => row(line, BAR + (i + 1) * ROW));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escapeXml(title)}</title>
<style>
text { font: ${FONT}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.window { stroke: ${COLORS.line[0]} }
${rules(0)}
@media (prefers-color-scheme: dark) {
.window { stroke: ${COLORS.line[1]} }
${rules(1)}
}
</style>
<rect class="window back" x="0.5" y="0.5" width="${width - 1}" height="${
    height - 1
  }" rx="8"/>
<text class="dim" x="${MARGIN}" y="25">${escapeXml(title)}</text>
<path class="window" d="M1 ${BAR - 0.5}H${width - 1}"/>
${rows.join("\n")}
</svg>
`;
}

/** Each piece begins at its column, whatever the font's width. */
function row(line: readonly Span[], y: number): string {
  let column = 0;
  const pieces = line.flatMap(({ style = "plain", text }) => {
    const start = column;
    column += text.length;
    // A run of spaces separates columns, and SVG would shorten it.
    return Array.from(text.matchAll(/\S+( \S+)*/g), ({ 0: piece, index }) => {
      const x = MARGIN + (start + index) * COLUMN;
      const length = piece.length * COLUMN;
      return `<tspan class="${style}" x="${x}" textLength="${length}" lengthAdjust="spacingAndGlyphs">${
        escapeXml(piece)
      }</tspan>`;
    });
  });
  return `<text y="${y}">${pieces.join("")}</text>`;
}

function rules(mode: 0 | 1): string {
  return Object.entries(COLORS)
    .filter(([name]) => name !== "line")
    .map(([name, colors]) => `.${name} { fill: ${colors[mode]} }`)
    .join("\n");
}

function escapeXml(text: string): string {
  return text.replace(
    /[&<>"]/g,
    (character) => `&#${character.charCodeAt(0)};`,
  );
}
