/** @jsxImportSource hono/jsx */
/**
 * Events per hour, as a chart and as a table.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import { type Console, table } from "./layout.tsx";
import type { Project } from "./project.ts";

/** From the bottom of the chart to its top, in colors for both schemes. */
const COLORS = { applied: "#2a9d74", stale: "#8a949c", failed: "#d9432c" };
const OUTCOMES = ["applied", "stale", "failed"] as const;

/** Events of one hour, by outcome. */
interface HourCount extends Record<typeof OUTCOMES[number], number> {
  /** In ISO 8601. */
  readonly hour: string;
}

const HOURS = 72;
const HOUR_MS = 3_600_000;
/** Adds the chart of events per hour, and the page with its table. */
export function addHours({ app, show, project, clock }: Console): void {
  app.get("/hours.svg", async (c) => {
    const image = chartImage(await countHours(project, clock()));
    return c.body(image, 200, { "content-type": "image/svg+xml" });
  });

  app.get("/hours", async (c) => {
    const all = await countHours(project, clock());
    const busy = all.toReversed().filter((hour) => sumOf(hour) > 0);
    const hours = table("Events per hour, the newest hour first", busy, {
      "Hour (UTC)": ({ hour }) => hour.slice(0, 16).replace("T", " "),
      applied: ({ applied }) => applied.toLocaleString("en"),
      stale: ({ stale }) => stale.toLocaleString("en"),
      failed: ({ failed }) => failed.toLocaleString("en"),
    });
    const content = [
      <h1>Events per hour, last three days</h1>,
      chart(),
      busy.length > 0 ? hours : <p>No event arrived in these days.</p>,
    ];
    return show(c, "Events per hour", content);
  });
}

/** Counts the last hours in order, also those without an event. */
async function countHours(
  project: Project,
  nowMs: number,
): Promise<readonly HourCount[]> {
  const query = { select: "hour,outcome,events" };
  const rows = await project.read("billing_events_per_hour", query);
  const first = Math.floor(nowMs / HOUR_MS) - HOURS + 1;
  const counts = Array.from({ length: HOURS }, (_, i) => ({
    hour: new Date((first + i) * HOUR_MS).toISOString(),
    applied: 0,
    stale: 0,
    failed: 0,
  }));
  for (const { hour, outcome, events } of rows) {
    const count = counts[Math.floor(Date.parse(hour ?? "") / HOUR_MS) - first];
    const known = OUTCOMES.find((one) => one === outcome);
    if (count && known) count[known] += events ?? 0;
  }
  return counts;
}

function sumOf({ applied, stale, failed }: HourCount): number {
  return applied + stale + failed;
}

/**
 * Returns the chart of events per hour. It is an image of its own, so that the
 * page does not wait for the count.
 */
export function chart(): Child {
  const key = OUTCOMES.map((outcome) => (
    <span>
      <svg width="10" height="10" aria-hidden="true">
        <rect width="10" height="10" fill={COLORS[outcome]} />
      </svg>{" "}
      {outcome}
    </span>
  ));
  const alt =
    "Bars: events per hour of the last three days. The same numbers are in the table.";
  return (
    <figure>
      <p class="spread">{key}</p>
      <img class="chart" src="/hours.svg" alt={alt} />
      <p class="spread">
        <span>3 days ago</span>
        <span>2 days ago</span>
        <span>yesterday</span>
        <span>now</span>
      </p>
    </figure>
  );
}

const WIDTH = 720;
const HEIGHT = 160;

/**
 * Returns a bar per hour, the outcomes on top of each other. The bars are
 * stretched to the width of the page, the number above them is not.
 */
function chartImage(hours: readonly HourCount[]): string {
  const most = Math.max(1, ...hours.map(sumOf));
  const bars = hours.flatMap((hour, i) => {
    let y = HEIGHT;
    return OUTCOMES.filter((outcome) => hour[outcome] > 0).map((outcome) => {
      // Two units at least: one failure beside a thousand must be visible.
      const height = Math.max(2, Math.round(hour[outcome] / most * HEIGHT));
      y -= height;
      return `<rect fill="${COLORS[outcome]}" x="${
        10 * i + 1
      }" y="${y}" width="8" height="${height}"/>`;
    });
  });
  const lines = [0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) =>
    `<path d="M0 ${y}h${WIDTH}" stroke="#8a949c" stroke-opacity="0.4" vector-effect="non-scaling-stroke"/>`
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="100%">
<text y="12" font-family="sans-serif" font-size="12" fill="#7b8087">${
    most.toLocaleString("en")
  }</text>
<svg y="18" width="100%" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none">
${[...lines, ...bars].join("\n")}
</svg></svg>`;
}
