/** @jsxImportSource hono/jsx */
/** The first page: is it well, and if not, where to look. */
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped } from "../common/how_started.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

/** A notification that works is sent within a minute or two. */
const LATE_MS = 5 * 60_000;

const CODES = Object.keys(ERRORS).length;

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
    const oldestMs = Date.parse(health?.oldest_pending_notification ?? "");
    const isLate = oldestMs < Date.now() - LATE_MS;
    const run = health?.last_scheduled_run_at;
    const schedule = run
      ? `the schedule ran ${ui.distance(Date.parse(run))}`
      : "no schedule has run";
    const headline = [
      open && ui.counted(open, "event has failed", "events have failed"),
      givenUp && `${ui.counted(givenUp, "notification")} given up`,
      isLate && `${ui.counted(pending, "notification")} waiting`,
    ].filter(Boolean).join(", ");
    const tile = (href: string, name: string, count: number, note = "") => (
      <article class={count > 0 && /open|given/i.test(name) ? "bad" : ""}>
        <a href={href}>{name}</a>
        <h2>{count.toLocaleString("en")}</h2>
        <small>{note}</small>
      </article>
    );
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
            Open: ({ open }) => open.toLocaleString("en"),
          })}
        {health?.last_event_at
          ? <p>Last event applied: {ui.time(health.last_event_at)}</p>
          : (
            <p>
              No event was applied yet. Send one:{" "}
              <code>{asTyped("trigger customer.subscription.created")}</code>
            </p>
          )}
      </>
    );
    return show(c, "Overview", content);
  });
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
