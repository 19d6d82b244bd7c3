import { type HourCount, OUTCOMES } from "../hour_counts.ts";
import { type Html, html } from "../html.ts";

const WIDTH = 720;
const HEIGHT = 160;
/** Of the line with the highest number, above the bars. */
const TOP = 18;

/** An image is not reached by the page's style. A test compares these with it. */
export const CHART_COLORS = {
  light: {
    applied: "#2a8f6a",
    stale: "#9aa3ab",
    failed: "#c93a23",
    line: "#dcdfe3",
    muted: "#59626b",
  },
  dark: {
    applied: "#3fae84",
    stale: "#6b747c",
    failed: "#ee6a55",
    line: "#30353a",
    muted: "#a3acb4",
  },
} as const;

/**
 * Returns a bar per hour as an SVG image, the outcomes on top of each other. The
 * bars are stretched to the width of the page, the number is not.
 */
export function chartImage(
  hours: readonly HourCount[],
  scheme: keyof typeof CHART_COLORS,
): Html {
  const colors = CHART_COLORS[scheme];
  const most = niceCeiling(Math.max(1, ...hours.map(sumOf)));
  const width = WIDTH / hours.length;
  const bars = hours.flatMap((hour, i) => {
    let y = HEIGHT;
    return OUTCOMES.filter((outcome) => hour[outcome] > 0).map((outcome) => {
      // Two units at least: one failure beside a thousand must be visible.
      const height = Math.max(2, hour[outcome] / most * HEIGHT);
      y -= height;
      return html`
        <rect fill="${colors[outcome]}" x="${round(i * width + 1)}" y="${round(
          y,
        )}" width="${round(width - 2)}"
          height="${round(height)}" />
      `;
    });
  });
  const lines = [0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) =>
    html`
      <line x1="0" x2="${WIDTH}" y1="${y}" y2="${y}"
        stroke="${colors.line}" vector-effect="non-scaling-stroke" />
    `
  );
  return html`
    <svg xmlns="http://www.w3.org/2000/svg" width="100%" height="100%">
      <text y="12" font-family="system-ui, sans-serif" font-size="12"
        fill="${colors.muted}">${most.toLocaleString("en")}</text>
      <svg y="${TOP}" width="100%" height="${HEIGHT}"
        viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none">
    ${lines}${bars}
      </svg>
    </svg>
  `;
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
