/** @jsxImportSource hono/jsx */
/** The first page: whether all is well, and if not, where to look. */
import type { Child } from "hono/jsx";
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped } from "../common/how_started.ts";
import type { Row } from "../common/project_api.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

type Health = Row<"billing_health">;

/** A notification that works is sent within a minute or two. */
const LATE_MS = 5 * 60_000;

const CODES = Object.keys(ERRORS).length;

export function addOverview({ app, project, show }: ui.Console): void {
  app.get("/", async (c) => {
    const [[health], codes] = await Promise.all([
      project.read("billing_health", {}),
      countByCode(project),
    ]);

    const content = (
      <>
        <h1>{headline(health) || "Nothing is failing"}</h1>
        {tiles(health)}

        <h2>Open failures by error</h2>
        {codeTable(codes)}

        {lastEvent(health?.last_event_at)}
      </>
    );
    return show(c, "Overview", content);
  });
}

/** Returns what is wrong; an empty text if nothing is. */
function headline(health: Health | undefined): string {
  const open = health?.open_failures ?? 0;
  const givenUp = health?.notifications_given_up ?? 0;
  const pending = health?.notifications_pending ?? 0;
  const oldestMs = Date.parse(health?.oldest_pending_notification ?? "");
  const isLate = oldestMs < Date.now() - LATE_MS;

  return [
    open && ui.counted(open, "event has failed", "events have failed"),
    givenUp && `${ui.counted(givenUp, "notification")} given up`,
    isLate && `${ui.counted(pending, "notification")} waiting`,
  ].filter(Boolean).join(", ");
}

function tiles(health: Health | undefined): Child {
  const ranAt = health?.last_scheduled_run_at;
  const schedule = ranAt
    ? `the schedule ran ${ui.distance(Date.parse(ranAt))}`
    : "no schedule has run";

  return (
    <div class="grid">
      {tile("/failures", "Open failures", {
        count: health?.open_failures,
        note: oldest(health?.oldest_open_failure),
        isBad: true,
      })}
      {tile("/failures", "Retries requested", {
        count: health?.retries_requested,
        note: schedule,
      })}
      {tile("/notifications", "Notifications that wait", {
        count: health?.notifications_pending,
        note: oldest(health?.oldest_pending_notification),
      })}
      {tile("/notifications", "Notifications given up", {
        count: health?.notifications_given_up,
        isBad: true,
      })}
    </div>
  );
}

function tile(
  href: string,
  name: string,
  { count, note = "", isBad = false }: {
    count: number | null | undefined;
    note?: string;
    isBad?: boolean;
  },
): Child {
  const shown = count ?? 0;
  return (
    <article class={isBad && shown > 0 ? "bad" : ""}>
      <a href={href}>{name}</a>
      <h2>{shown.toLocaleString("en")}</h2>
      <small>{note}</small>
    </article>
  );
}

function oldest(time: string | null | undefined): string {
  return time ? `the oldest: ${ui.distance(Date.parse(time))}` : "";
}

function codeTable(codes: Awaited<ReturnType<typeof countByCode>>): Child {
  if (codes.length === 0) return <p>No failure is open.</p>;
  return ui.table("Open failures by error", codes, {
    Error: ({ code }) => [
      <a href={ui.link("/failures", { code })}>{code}</a>,
      <small>{ERRORS[code as ErrorCode]?.means}</small>,
    ],
    Open: ({ open }) => open.toLocaleString("en"),
  });
}

function lastEvent(time: string | null | undefined): Child {
  if (time) return <p>Last event applied: {ui.time(time)}</p>;
  return (
    <p>
      No event was applied yet. Send one:{" "}
      <code>{asTyped("trigger customer.subscription.created")}</code>
    </p>
  );
}

/**
 * Returns the codes of open failures with their numbers, the largest first. The
 * API groups no rows, so it is asked for one code after the other.
 */
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
