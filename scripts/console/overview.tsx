/** @jsxImportSource hono/jsx */
/**
 * The first page: is it well, and if not, where to look.
 *
 * @module
 */
import { ERRORS } from "../../supabase/functions/_shared/billing/errors.ts";
import { asTyped } from "../common/how_started.ts";
import { chart } from "./hours.tsx";
import { type Console, counted, link, table, time } from "./layout.tsx";
import type { Project } from "./project.ts";
import { markdownLine, RUNBOOK } from "./runbook.tsx";
import { relativeTime, visible } from "./text.tsx";

/** Supabase's API sends no more, unless it is told to. */
const MAX_ROWS = 1_000;
const PENDING = "/notifications?status=pending";

/** Adds the first page. */
export function addOverview({ app, project, show }: Console): void {
  app.get("/", async (c) => {
    const [[health], codes] = await Promise.all([
      project.read("billing_health", {}),
      countByCode(project),
    ]);
    const open = health?.open_failures ?? 0;
    const givenUp = health?.notifications_given_up ?? 0;
    const pending = health?.notifications_pending ?? 0;
    const retries = health?.retries_requested ?? 0;
    const oldest = health?.oldest_open_failure;
    const waiting = health?.oldest_pending_notification;
    const tiles = [
      ["Open failures", open, "/failures", age(oldest), open > 0],
      ["Retries requested", retries, "/failures", "until the next run", false],
      ["Notifications that wait", pending, PENDING, age(waiting), false],
      ["Notifications given up", givenUp, "/notifications", "", givenUp > 0],
    ] as const;
    const example = asTyped("trigger customer.subscription.created");
    const content = (
      <>
        <h1>{headline(open, givenUp)}</h1>
        <div class="grid">
          {tiles.map(([name, count, href, note, isBad]) => (
            <article class={isBad ? "bad" : ""}>
              <a href={href}>{name}</a>
              <h2>{count.toLocaleString("en")}</h2>
              <small>{note}</small>
            </article>
          ))}
        </div>
        <h2>Open failures by error</h2>
        {codes.length === 0 ? "No failure is open." : table(
          "Open failures by error",
          codes,
          {
            Error: ([code]) => (
              <a href={link("/failures", { code })}>{visible(code)}</a>
            ),
            Means: ([code]) => markdownLine(RUNBOOK.get(code)?.means ?? ""),
            Open: ([, open]) => open.toLocaleString("en"),
          },
        )}
        <h2>Events per hour, last three days</h2>
        {health?.last_event_at
          ? <p>Last event applied: {time(health.last_event_at)}</p>
          : (
            <p>
              No event was applied yet. Send one: <code>{example}</code>
            </p>
          )}
        {chart()}
        <p>
          <a href="/hours">The chart as a table</a>. The ledger has about{" "}
          {(health?.ledger_rows_estimate ?? 0).toLocaleString("en")} rows.
        </p>
      </>
    );
    return show(c, "Overview", content);
  });
}

/** Returns the codes of open failures with their numbers, the largest first. */
async function countByCode(
  project: Project,
): Promise<(readonly [code: string, open: number])[]> {
  const count = (code: string, limit: number) =>
    project.count("billing_failed_events", {
      select: "error_code",
      resolved_at: "is.null",
      ...(code && { error_code: `eq.${code}` }),
      limit: `${limit}`,
    });
  const all = await count("", MAX_ROWS);
  const byCode = Map.groupBy(all.data, ({ error_code }) => error_code);
  const counts = all.data.length === all.count
    ? Array.from(byCode, ([code, { length }]) => [code, length] as const)
    : await Promise.all(
      Object.keys(ERRORS)
        .map(async (code) => [code, (await count(code, 1)).count] as const),
    );
  return counts.filter(([, open]) => open > 0).sort(([, a], [, b]) => b - a);
}

function headline(open: number, givenUp: number): string {
  const failed = counted(open, "event has failed", "events have failed");
  const lost = counted(
    givenUp,
    "notification was given up",
    "notifications were given up",
  );
  if (open > 0) return givenUp > 0 ? `${failed}, and ${lost}` : failed;
  return givenUp > 0 ? lost : "Nothing is failing";
}

function age(time: string | null | undefined): string {
  return time ? `the oldest: ${relativeTime(time)}` : "";
}
