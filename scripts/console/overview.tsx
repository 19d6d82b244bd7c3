/** @jsxImportSource hono/jsx */
/** The first page: whether anything is failing, and where to look. */
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped } from "../common/environment.ts";
import type { ProjectError, Row } from "../common/project_api.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

type Health = Partial<Row<"billing_health">>;
type Sweep = Row<"billing_sweeps">;

const ALARMING = ["Open failures", "Notifications given up"];

/** A notification is normally sent within two minutes. */
const LATE_MS = 5 * 60_000;

const CODES = Object.keys(ERRORS).length;

const HOUR_MS = 3_600_000;
/** Three days, whose oldest hour is not a whole one. */
const HOURS = 73;

interface Hour {
  handled: number;
  failed: number;
}

export function addOverview({ app, project, show }: ui.Console): void {
  app.get("/", async (c) => {
    const hourAgo = new Date(Date.now() - HOUR_MS).toISOString();
    const [[row], codes, sweeps, hours] = await Promise.all([
      project.read("billing_health", {}),
      countByCode(project),
      // Not those of a key that was removed.
      project.read("billing_sweeps", { wanted_at: `gt.${hourAgo}` }),
      // It counts, which may take too long.
      readHours(project).catch((error: ProjectError) => error.message),
    ]);
    const health: Health = row ?? {};

    const content = (
      <>
        <h1>{headline(health, sweeps) || "Nothing is failing"}</h1>
        {overviewTiles(health)}

        <h2>Events by the hour</h2>
        {Array.isArray(hours) ? hourFigure(hours) : <p>{hours}</p>}

        <h2>Open failures by error</h2>
        {codeTable(codes)}

        {sweepTable(sweeps)}

        {lastEvent(health.last_event_at)}
      </>
    );
    return show(c, "Overview", content);
  });
}

function headline(health: Health, sweeps: readonly Sweep[]): string {
  const {
    open_failures: open,
    notifications_given_up: givenUp,
    notifications_pending: pending,
    oldest_pending_notification: oldest,
    missed_events: missed,
  } = health;
  const isLate = Date.parse(oldest ?? "") < Date.now() - LATE_MS;
  return [
    open && ui.counted(open, "event has failed", "events have failed"),
    givenUp && `${ui.counted(givenUp, "notification")} given up`,
    isLate && `${ui.counted(pending ?? 0, "notification")} waiting`,
    missed && `${ui.counted(missed, "event")} never arrived`,
    sweeps.some((sweep) => sweep.last_error) && "a sweep has an error",
  ].filter(Boolean).join(", ");
}

function overviewTiles(health: Health) {
  const ranAt = health.last_scheduled_run_at;
  const schedule = ranAt
    ? `the schedule ran ${ui.distance(Date.parse(ranAt))}`
    : "the schedule has not run";
  const oldest = (time?: string | null) =>
    time ? `the oldest: ${ui.distance(Date.parse(time))}` : "";

  const shown = [
    [
      "/failures",
      "Open failures",
      health.open_failures,
      oldest(health.oldest_open_failure),
    ],
    ["/failures", "Retries requested", health.retries_requested, schedule],
    [
      "/notifications",
      "Pending notifications",
      health.notifications_pending,
      oldest(health.oldest_pending_notification),
    ],
    [
      "/notifications",
      "Notifications given up",
      health.notifications_given_up,
      "",
    ],
  ] as const;

  const tiles = shown.map(([href, name, count, note]) => (
    <article class={count && ALARMING.includes(name) ? "bad" : ""}>
      <a href={href}>{name}</a>
      <h2>{(count ?? 0).toLocaleString("en")}</h2>
      <small>{note}</small>
    </article>
  ));
  return <div class="grid">{tiles}</div>;
}

function codeTable(codes: Awaited<ReturnType<typeof countByCode>>) {
  if (codes.length === 0) return <p>No failure is open.</p>;
  return ui.table("Open failures by error", codes, {
    Error: ({ code }) => [
      <a href={ui.link("/failures", { code })}>{code}</a>,
      <small>{ERRORS[code as ErrorCode]?.means}</small>,
    ],
    Open: ({ open }) => open.toLocaleString("en"),
  });
}

function sweepTable(sweeps: readonly Sweep[]) {
  if (sweeps.length === 0) return "";
  const title = "Events that never arrived";
  return [
    <h2>{title}</h2>,
    ui.table(title, sweeps, {
      Provider: ({ provider }) => ui.value(provider),
      "Last sweep": ({ last_success_at }) => ui.time(last_success_at),
      "Found in 90 days": ({ found }) => ui.value(found),
      "Last error": ({ last_error }) => ui.value(last_error),
    }),
  ];
}

/** Returns the hours with events; the index says how many hours ago. */
async function readHours(project: Project): Promise<Hour[]> {
  const rows = await project.read("billing_events_per_hour", {});
  const hours: Hour[] = [];
  for (const { hour, outcome, events } of rows) {
    const ago = Math.floor((Date.now() - Date.parse(hour ?? "")) / HOUR_MS);
    // The database's clock may be ahead.
    const counts = hours[Math.max(ago, 0)] ??= { handled: 0, failed: 0 };
    counts[outcome === "failed" ? "failed" : "handled"] += events ?? 0;
  }
  return hours;
}

/** Draws handled events above a line, and failed ones below it, to a scale of its own. */
function hourFigure(hours: readonly Hour[]) {
  const shown = hours.filter(Boolean);
  if (shown.length === 0) return <p>None in the last three days.</p>;
  const handled = summary(shown.map((hour) => hour.handled));
  const failed = summary(shown.map((hour) => hour.failed));

  const bars = hours.map((hour, ago) => {
    const x = HOURS - 1 - ago;
    const up = handled.share(hour.handled) * 30;
    const down = failed.share(hour.failed) * 10;
    return [
      <rect x={x} y={30 - up} width={0.8} height={up} />,
      <rect x={x} y={30} width={0.8} height={down} class="bad" />,
    ];
  });

  return (
    <figure>
      <svg
        viewBox={`0 0 ${HOURS} 40`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {bars}
      </svg>
      <p class="days">
        <small>72 h ago</small>
        <small>48 h ago</small>
        <small>24 h ago</small>
      </p>
      <figcaption>
        Above: {handled.text} handled.{" "}
        <span class="bad">Below: {failed.text} failed and still open.</span>
      </figcaption>
    </figure>
  );
}

function summary(counts: readonly number[]) {
  const most = Math.max(...counts);
  const total = counts.reduce((sum, count) => sum + count);
  return {
    text: `${total.toLocaleString("en")} (at most ${
      most.toLocaleString("en")
    } an hour)`,
    /** A single event can be seen. */
    share: (count: number) => count && Math.max(count / most, 0.1),
  };
}

function lastEvent(time?: string | null) {
  if (time) return <p>Last event applied: {ui.time(time)}</p>;
  return (
    <p>
      No event has been applied yet. Send one:{" "}
      <code>{asTyped("trigger customer.subscription.created")}</code>
    </p>
  );
}

/** The API cannot group rows, so it is asked for one code after the other. */
async function countByCode(project: Project) {
  const open = (error_code: string) =>
    project.count("billing_failed_events", {
      select: "error_code",
      resolved_at: "is.null",
      error_code,
      order: "error_code",
      limit: "1",
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
