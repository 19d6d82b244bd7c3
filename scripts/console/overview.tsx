/** @jsxImportSource hono/jsx */
/**
 * The first page: is it well, and if not, where to look; and events per hour, as a
 * chart and as a table.
 */
import type { Child } from "hono/jsx";
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped } from "../common/how_started.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

const HOURS = 72;
const HOUR_MS = 3_600_000;
/** From the bottom of the chart to its top. Both schemes show them at 3:1. */
const COLORS = { applied: "#2a9d74", stale: "#8a949c", failed: "#d9432c" };
type Outcome = keyof typeof COLORS;
const OUTCOMES = Object.keys(COLORS) as Outcome[];
const CODES = Object.keys(ERRORS).length;
const TITLE = "Events per hour, last three days";

/** Events of one hour, which is in ISO 8601, by outcome. */
type HourCount = Record<Outcome, number> & { readonly hour: string };

/** Adds the first page, the chart, and the page with its table. */
export function addOverview({ app, project, show }: ui.Console): void {
  app.get("/", async (c) => {
    const [[health], codes] = await Promise.all([
      project.read("billing_health", {}),
      countByCode(project),
    ]);
    const open = health?.open_failures ?? 0;
    const retries = health?.retries_requested ?? 0;
    const pending = health?.notifications_pending ?? 0;
    const givenUp = health?.notifications_given_up ?? 0;
    const since = (time: string | null | undefined) =>
      time ? `the oldest: ${ui.distance(Date.parse(time))}` : "";
    const oldest = since(health?.oldest_open_failure);
    const waiting = since(health?.oldest_pending_notification);
    const run = health?.last_scheduled_run_at;
    const schedule = run
      ? `the schedule ran ${ui.distance(Date.parse(run))}`
      : "no schedule has run";
    const waitingList = "/notifications?status=pending";
    const headline = [
      open && ui.counted(open, "event has failed", "events have failed"),
      givenUp && `${ui.counted(givenUp, "notification")} given up`,
    ].filter((part) => part !== 0).join(", ");
    const tile = (href: string, name: string, count: number, note = "") => (
      <article class={count > 0 && /open|given/i.test(name) ? "bad" : ""}>
        <a href={href}>{name}</a>
        <h2>{number(count)}</h2>
        <small>{note}</small>
      </article>
    );
    const content = (
      <>
        <h1>{headline || "Nothing is failing"}</h1>
        <div class="grid">
          {tile("/failures", "Open failures", open, oldest)}
          {tile("/failures", "Retries requested", retries, schedule)}
          {tile(waitingList, "Notifications that wait", pending, waiting)}
          {tile("/notifications", "Notifications given up", givenUp)}
        </div>
        <h2>Open failures by error</h2>
        {codes.length === 0
          ? <p>No failure is open.</p>
          : ui.table("Open failures by error", codes, {
            Error: ({ code }) => [
              <a href={ui.link("/failures", { code })}>{code}</a>,
              <small>{ERRORS[code as ErrorCode]?.means}</small>,
            ],
            Open: ({ open }) => number(open),
          })}
        <h2>{TITLE}</h2>
        {health?.last_event_at
          ? <p>Last event applied: {ui.time(health.last_event_at)}</p>
          : (
            <p>
              No event was applied yet. Send one:{" "}
              <code>{asTyped("trigger customer.subscription.created")}</code>
            </p>
          )}
        {chart}
        <p>
          <a href="/hours">The chart as a table</a>.{" "}
          {health?.ledger_rows_estimate
            ? `The ledger has about ${
              number(health.ledger_rows_estimate)
            } rows.`
            : ""}
        </p>
      </>
    );
    return show(c, "Overview", content);
  });

  app.get("/hours.svg", async (c) => {
    const image = chartImage(await countHours(project));
    return c.body(image, 200, { "content-type": "image/svg+xml" });
  });

  app.get("/hours", async (c) => {
    const hours = (await countHours(project)).toReversed()
      .filter((hour) => sumOf(hour) > 0);
    const content = [
      <h1>{TITLE}</h1>,
      chart,
      hours.length === 0 && <p>No event arrived in these days.</p>,
      ui.table("Events per hour, the newest hour first", hours, {
        "Hour (UTC)": ({ hour }) => hour.slice(0, 16).replace("T", " "),
        applied: ({ applied }) => number(applied),
        stale: ({ stale }) => number(stale),
        failed: ({ failed }) => number(failed),
      }),
    ];
    return show(c, "Events per hour", content);
  });
}

function number(count: number): string {
  return count.toLocaleString("en");
}

/**
 * Returns the codes of open failures with their numbers, the largest first. The
 * API groups no rows, so it is asked for one code after the other.
 */
async function countByCode(project: Project) {
  const open = (error_code: string) =>
    project.count("billing_failed_events", {
      ...{ select: "error_code", resolved_at: "is.null", error_code },
      ...{ order: "error_code", limit: "1" },
    });
  const counts: { code: string; open: number }[] = [];
  let { data: [next] } = await open("gt.");
  while (next && counts.length < CODES) {
    const code = next.error_code;
    counts.push({ code, open: (await open(`eq.${code}`)).count });
    [next] = (await open(`gt.${code}`)).data;
  }
  return counts.sort((a, b) => b.open - a.open);
}

/** Counts the last hours in order, also those without an event. */
async function countHours(project: Project): Promise<readonly HourCount[]> {
  const query = { select: "hour,outcome,events" };
  const rows = await project.read("billing_events_per_hour", query);
  const first = Math.floor(Date.now() / HOUR_MS) - HOURS + 1;
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

/** An image of its own, so that the page does not wait for the count. */
const chart: Child = (
  <figure>
    <p class="spread">
      {OUTCOMES.map((outcome) => (
        <span>
          <svg width="10" height="10" aria-hidden="true">
            <rect width="10" height="10" fill={COLORS[outcome]} />
          </svg>{" "}
          {outcome}
        </span>
      ))}
    </p>
    <img
      class="chart"
      src="/hours.svg"
      alt="Bars: events per hour of the last three days. The same numbers are in the table."
    />
    <p class="spread">
      {["3 days ago", "2 days ago", "yesterday", "now"]
        .map((time) => <span>{time}</span>)}
    </p>
  </figure>
);

/**
 * Returns a bar per hour, the outcomes on top of each other. The bars are
 * stretched to the width of the page, the number above them is not: it has a
 * ground of its own, since an image does not know the page's color scheme.
 */
function chartImage(hours: readonly HourCount[]): string {
  const most = Math.max(1, ...hours.map(sumOf));
  const bars = hours.flatMap((hour, i) => {
    let y = 160;
    return OUTCOMES.filter((outcome) => hour[outcome] > 0).map((outcome) => {
      // Two units at least: one failure beside a thousand must be visible.
      const height = Math.max(2, Math.round(hour[outcome] / most * 160));
      y -= height;
      const place = `x="${10 * i + 1}" y="${y}" width="8" height="${height}"`;
      return `<rect fill="${COLORS[outcome]}" ${place}/>`;
    });
  });
  const label = most.toLocaleString("en");
  return `<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="100%">
<rect width="${8 * label.length + 8}" height="16" rx="3" fill="#4a5568"/>
<text x="4" y="12" font-family="sans-serif" font-size="12" fill="#fff">${label}</text>
<svg y="18" width="100%" height="160" viewBox="0 0 720 160" preserveAspectRatio="none">
<path d="M0 .5h720M0 80h720M0 159.5h720" stroke="#8a949c" stroke-opacity="0.4" vector-effect="non-scaling-stroke"/>
${bars.join("\n")}
</svg></svg>`;
}
