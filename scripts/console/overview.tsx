/** @jsxImportSource hono/jsx */
/** The first page: is it well, and if not, where to look; and events per hour. */
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped } from "../common/how_started.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

const CODES = Object.keys(ERRORS).length;

export function addOverview({ app, project, show }: ui.Console): void {
  app.get("/", async (c) => {
    const [[health], codes, hours] = await Promise.all([
      project.read("billing_health", {}),
      countByCode(project),
      countHours(project),
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
    const most = Math.max(...hours.map(({ all }) => all));
    const content = (
      <>
        <h1>{headline || "Nothing is failing"}</h1>
        <div class="grid">
          {tile("/failures", "Open failures", open, oldest)}
          {tile("/failures", "Retries requested", retries, schedule)}
          {tile("/notifications", "Notifications that wait", pending, waiting)}
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
        <h2>Events per hour, last three days</h2>
        {health?.last_event_at
          ? <p>Last event applied: {ui.time(health.last_event_at)}</p>
          : (
            <p>
              No event was applied yet. Send one:{" "}
              <code>{asTyped("trigger customer.subscription.created")}</code>
            </p>
          )}
        {hours.length > 0 && ui.table("Events per hour", hours, {
          "Hour (UTC)": (
            { hour, all },
          ) => [hour, " ", <meter max={most} value={all} />],
          applied: ({ applied }) => number(applied),
          stale: ({ stale }) => number(stale),
          failed: ({ failed }) => number(failed),
        })}
      </>
    );
    return show(c, "Overview", content);
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

/** Counts the events of each hour by outcome, the newest hour first. */
async function countHours(project: Project) {
  const query = { select: "hour,outcome,events", order: "hour.desc" };
  const rows = await project.read("billing_events_per_hour", query);
  const hours = Map.groupBy(rows, ({ hour }) => hour);
  return Array.from(hours, ([hour, rows]) => {
    const count = (outcome?: string) =>
      rows.filter((row) => !outcome || row.outcome === outcome)
        .reduce((sum, { events }) => sum + (events ?? 0), 0);
    return {
      hour: new Date(hour ?? "").toISOString().slice(0, 16).replace("T", " "),
      all: count(),
      applied: count("applied"),
      stale: count("stale"),
      failed: count("failed"),
    };
  });
}
