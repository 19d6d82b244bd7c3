/** @jsxImportSource hono/jsx */
/** The list of failures, its filter, and the retry of all that match. */
import type { Child } from "hono/jsx";
import type { ProjectError, Query, Row } from "../common/project_api.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

type Listed = Row<"billing_failed_events">;
export const LISTED =
  "provider,event_id,type,subscription_id,error_code,error,attempts,first_failed_at,last_failed_at,next_retry_at,retry_requested_at,resolved_at,resolution";

/** A failure with its payloads as JSON text. */
export interface Failure extends Listed {
  readonly payload: string | null;
  /** The payload as received, if it was repaired. */
  readonly original: string | null;
}

export async function readFailure(
  project: Project,
  { provider = "", event = "" }: ui.Fields,
): Promise<Failure | undefined> {
  const [row] = await project.read("billing_failed_events", {
    // As text, because JSON.parse rounds large numbers.
    select:
      `${LISTED},kind,account_id,payload_encoding,resolution_note,resolved_by,occurred_at,version,payload:payload::text,original:original_payload::text`,
    provider: `eq.${provider}`,
    event_id: `eq.${event}`,
  });
  return row as Failure | undefined;
}

export function failureLink({ provider, event_id: event }: Listed): string {
  return ui.link("/failure", { provider, event });
}

function readFilter({ state, code = "", type = "" }: ui.Fields) {
  return { state: state === "resolved" ? state : "", code, type };
}

type Filter = ReturnType<typeof readFilter>;

function conditions({ state, code, type }: Filter): Query {
  return {
    resolved_at: state === "" ? "is.null" : "not.is.null",
    ...(code && { error_code: `eq.${code}` }),
    ...(type && { type: `eq.${type}` }),
  };
}

export function addFailures(console: ui.Console): void {
  const { app, project, show, showResult } = console;

  app.get("/failures", async (c) => {
    const filter = readFilter(c.req.query());
    const isOpen = filter.state === "";
    const page = Number(/^[1-9]\d{0,4}$/.exec(c.req.query("page") ?? "") ?? 1);

    const list = await project.count("billing_failed_events", {
      select: LISTED,
      ...conditions(filter),
      order: `${isOpen ? "last_failed_at" : "resolved_at"}.desc,event_id`,
      offset: `${(page - 1) * ui.PAGE_SIZE}`,
      limit: `${ui.PAGE_SIZE}`,
    }).catch((error: ProjectError) => {
      // The page is empty now: failures were resolved since it was linked.
      if (error.code !== "PGRST103") throw error;
    });
    if (!list) return c.redirect(ui.link("/failures", filter), 303);

    const { data, count } = list;
    const content = (
      <>
        <h1>{isOpen ? "Open failures" : "Resolved in the last 90 days"}</h1>
        {filterForm(filter, data)}
        <p>{ui.counted(count, "failure matches.", "failures match.")}</p>
        {isOpen && count > 0 && retryForm(filter, count)}
        {count > 0 ? failureTable(data) : <p>Events that fail appear here.</p>}
        {pager(filter, { page, last: Math.ceil(count / ui.PAGE_SIZE) })}
      </>
    );
    return show(c, "Failures", content);
  });

  app.post("/failures/retry", async (c) => {
    const { code, type } = await ui.readForm(c);
    const answer = await project.call("retry_failed_events", {
      ...(type && { of_type: type }),
      ...(code && { of_error_code: code }),
    });
    const problem = await project.wakeWorker("retries");
    const run = problem === ""
      ? "The worker has run. Events that failed again are at the top."
      : "";
    const done = `${ui.withoutAdvice(answer)}\n${run}`;
    return showResult(c, "/failures", { done, problem });
  });
}

function filterForm(
  { state, code, type }: Filter,
  listed: readonly Listed[],
) {
  const types = listed.map(({ type }) => type ?? "")
    .filter((type) => /^[\w.-]{1,100}$/.test(type));
  const codes = listed.map(({ error_code }) => error_code);
  return (
    <details open={[state, code, type].join("") !== ""}>
      <summary>Filter</summary>
      <form action="/failures">
        <div class="grid">
          {choice("State", "state", [state || "open", "open", "resolved"])}
          {choice("Error code", "code", [code, "", ...codes])}
          {choice("Event type", "type", [type, "", ...types])}
        </div>
        <button>Filter</button> <a href="/failures">Clear</a>
      </form>
    </details>
  );
}

function choice(
  label: string,
  name: string,
  options: readonly string[],
) {
  return (
    <label>
      {label}{" "}
      <select name={name}>
        {[...new Set(options)].map((option) => (
          <option value={option}>{option || "any"}</option>
        ))}
      </select>
    </label>
  );
}

function retryForm(filter: Filter, count: number) {
  const button = <button>Retry {ui.counted(count, "failure")}</button>;
  return (
    <details>
      <summary>Retry all that match</summary>
      <p>
        None is applied twice. Failures whose payload was deleted are left out.
      </p>
      {ui.form("/failures/retry", filter, button)}
    </details>
  );
}

function pager(
  filter: Filter,
  { page, last }: { page: number; last: number },
) {
  if (last <= 1) return false;
  const to = (page: number) =>
    ui.link("/failures", { ...filter, page: `${page}` });
  return (
    <p class="spread">
      {page > 1 && <a href={to(page - 1)}>Newer</a>}
      Page {page} of {last}
      {page < last && <a href={to(page + 1)}>Older</a>}
    </p>
  );
}

export function failureTable(failures: readonly Listed[]): Child {
  return ui.table("Failures, the newest first", failures, {
    Event: (row) => [
      ui.linked(row.event_id, failureLink(row)),
      <small>{ui.value(row.type)}, provider {ui.visible(row.provider)}</small>,
    ],
    Error: (row) => [
      stateOf(row),
      " ",
      <code>{ui.visible(row.error_code)}</code>,
      <small>{ui.visible(ui.shortened(row.error, 160))}</small>,
    ],
    Subscription: (row) => ui.linked(row.subscription_id),
    Attempts: (row) => row.attempts,
    "Last failed": (row) => ui.time(row.last_failed_at),
  });
}

export function stateOf(row: Listed): Child {
  if (row.resolved_at !== null) {
    return <strong class="good">resolved: {ui.value(row.resolution)}</strong>;
  }
  if (row.retry_requested_at !== null) return <strong>retry requested</strong>;
  const next = row.next_retry_at === null
    ? "waits for a person"
    : `retry due ${ui.distance(Date.parse(row.next_retry_at))}`;
  return <strong class="bad">open, {next}</strong>;
}
