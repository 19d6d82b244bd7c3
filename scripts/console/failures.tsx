/** @jsxImportSource hono/jsx */
/**
 * The list of failures, with its filter, and the retry of all that match.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import { HANDLED_TYPES } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import {
  type Console,
  counted,
  type Fields,
  firstSentences,
  link,
  linked,
  readForm,
  table,
  time,
  value,
} from "./layout.tsx";
import type { Project, ProjectError, Query, Row } from "./project.ts";
import { RUNBOOK } from "./runbook.tsx";
import { shortened, sqlString, visible } from "./text.tsx";

/** How many rows a list has. */
export const PAGE_SIZE = 50;
/** Of an error in the list, in characters. The failure's page has all of it. */
const LONGEST_ERROR = 160;
/** PostgREST's code for a range that begins after the last row. */
const NO_SUCH_RANGE = "PGRST103";

/** The columns of a failure in a list. */
export const LISTED =
  "provider,event_id,type,subscription_id,error_code,error,attempts,first_failed_at,last_failed_at,retry_requested_at,resolved_at,resolution";

/** A failure in a list has these columns at least. */
type Failure = Row<"billing_failed_events">;

/** Which failure: both providers may have an event with the same ID. */
export type FailureKey = Pick<Failure, "provider" | "event_id">;

/** Returns the URL of a failure's page, or of a page below it. */
export function failureLink(
  { provider, event_id: event }: FailureKey,
  path = "/failure",
): string {
  return link(path, { provider, event });
}

/** Returns the newest failures that have a value in a column. */
export function failuresWith(project: Project, column: string, id: string) {
  return project.read("billing_failed_events", {
    select: LISTED,
    [column]: `eq.${id}`,
    order: "last_failed_at.desc",
    limit: `${PAGE_SIZE}`,
  });
}

/** Reads a filter. What is not given, or a time that is none, is empty. */
function readFilter(fields: Fields) {
  return {
    state: fields["state"] === "resolved" ? "resolved" : "",
    code: fields["code"]?.trim() ?? "",
    type: fields["type"]?.trim() ?? "",
    since: readTime(fields["since"]),
    until: readTime(fields["until"]),
  };
}

type Filter = ReturnType<typeof readFilter>;

/** A browser's field for a time has no time zone: UTC is meant. */
function readTime(text = ""): string {
  const isLocal = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text);
  const timeMs = Date.parse(isLocal ? `${text}Z` : text);
  return Number.isNaN(timeMs) ? "" : new Date(timeMs).toISOString();
}

function conditions({ state, code, type, since, until }: Filter): Query {
  return {
    resolved_at: state === "" ? "is.null" : "not.is.null",
    ...(code && { error_code: `eq.${code}` }),
    ...(type && { type: `eq.${type}` }),
    ...(since && { last_failed_at: `gte.${since}` }),
    ...(until && { and: `(last_failed_at.lt."${until}")` }),
  };
}

/** Returns the arguments of `retry_failed_events` for a filter. */
function retryArguments({ code, type, since, until }: Filter): Query {
  return {
    ...(type && { of_type: type }),
    ...(code && { of_error_code: code }),
    ...(since && { failed_since: since }),
    ...(until && { failed_until: until }),
  };
}

function retryAllSql(filter: Filter): string {
  const given = Object.entries(retryArguments(filter))
    .map(([name, value]) => `${name} => ${sqlString(value)}`);
  return `select billing.retry_failed_events(${given.join(", ")});`;
}

/** Adds the list, and the page that asks whether to retry all that match. */
export function addFailures(
  { app, project, show, showResult, form }: Console,
): void {
  app.get("/failures", async (c) => {
    const filter = readFilter(c.req.query());
    const asked = c.req.query("page") ?? "";
    const page = /^[1-9]\d{0,4}$/.test(asked) ? Number(asked) : 1;
    const newest = filter.state === "" ? "last_failed_at" : "resolved_at";
    const list = await project.count("billing_failed_events", {
      select: LISTED,
      ...conditions(filter),
      order: `${newest}.desc,event_id`,
      offset: `${(page - 1) * PAGE_SIZE}`,
      limit: `${PAGE_SIZE}`,
    }).catch((error: ProjectError) => {
      if (error.code !== NO_SUCH_RANGE) throw error;
    });
    // While the operator read it, failures were resolved.
    if (!list) return c.redirect(link("/failures", filter), 303);
    return show(c, "Failures", listPage(filter, list, page, form));
  });

  app.post("/failures/retry", async (c) => {
    const filter = readFilter(await readForm(c));
    const args = retryArguments(filter);
    const answer = await project.call("billing_retry_failed_events", args);
    const waking = await project.wakeWorker();
    const text = waking ||
      "The worker has run: what is still listed failed again, or waits for the next run, such as behind a lock of another session.";
    return showResult(c, "/failures", {
      kind: waking === "" ? "good" : "bad",
      text: `${firstSentences(answer)}\n${text}`,
    });
  });
}

function listPage(
  filter: Filter,
  { data, count }: { data: readonly Failure[]; count: number },
  page: number,
  form: Console["form"],
): Child {
  const isOpen = filter.state === "";
  const last = Math.ceil(count / PAGE_SIZE);
  const retry = <button>Retry {counted(count, "failure")}</button>;
  const to = (page: number) =>
    link("/failures", { ...filter, page: `${page}` });
  return (
    <>
      <h1>{isOpen ? "Open" : "Resolved"} failures</h1>
      {filterForm(filter)}
      <p>{counted(count, "failure matches.", "failures match.")}</p>
      {isOpen && count > 0 && (
        <details>
          <summary>Retry all that match</summary>
          <p>
            In the order in which the events occurred. Nothing is applied twice:
            a retry goes through the same ledger as a delivery. Failures whose
            payload was pruned are left out.
          </p>
          {form("/failures/retry", filter, retry, retryAllSql(filter))}
        </details>
      )}
      {failureTable(
        data,
        isOpen
          ? "No open failure matches. Events that fail appear here."
          : "No resolved failure matches. They are kept for 90 days.",
      )}
      {last > 1 && (
        <p class="spread">
          {page > 1 && <a href={to(page - 1)}>Newer</a>}
          Page {page} of {last}
          {page < last && <a href={to(page + 1)}>Older</a>}
        </p>
      )}
    </>
  );
}

function filterForm({ state, code, type, since, until }: Filter): Child {
  const isGiven = [state, code, type, since, until].some((field) => field);
  return (
    <details open={isGiven}>
      <summary>Filter</summary>
      <form action="/failures">
        {select("State", "state", ["open", "resolved"], state)}
        {select("Error code", "code", ["", ...RUNBOOK.keys()], code)}
        {select("Event type", "type", ["", ...HANDLED_TYPES], type)}
        {timeField("Last failed since (UTC)", "since", since)}
        {timeField("and before (UTC)", "until", until)}
        <button>Filter</button> <a href="/failures">Clear</a>
      </form>
    </details>
  );
}

function select(
  label: string,
  name: string,
  options: readonly string[],
  chosen: string,
): Child {
  const all = new Set([...options, ...(chosen ? [chosen] : [])]);
  const shown = [...all].map((one) => (
    <option value={one} selected={one === chosen}>{one || "any"}</option>
  ));
  return (
    <label>
      {label} <select name={name}>{shown}</select>
    </label>
  );
}

function timeField(label: string, name: string, time: string): Child {
  const value = time.slice(0, 16);
  return (
    <label>
      {label} <input type="datetime-local" {...{ name, value }} />
    </label>
  );
}

/** Returns a table of failures, or a text if there is none. */
export function failureTable(
  failures: readonly Failure[],
  empty: string,
): Child {
  if (failures.length === 0) return <p>{empty}</p>;
  return table("Failures, the newest first", failures, {
    Event: (row) => [
      linked(row.event_id, failureLink(row)),
      <small>{value(row.type)}, provider {visible(row.provider)}</small>,
    ],
    Error: (row) => [
      stateOf(row),
      " ",
      <code>{visible(row.error_code)}</code>,
      <small>{visible(shortened(row.error, LONGEST_ERROR))}</small>,
    ],
    Subscription: (row) => linked(row.subscription_id),
    Attempts: (row) => row.attempts,
    "Last failed": (row) => time(row.last_failed_at),
  });
}

/** Returns whether a failure is open, with a word and a color. */
export function stateOf(row: Failure): Child {
  if (row.resolved_at !== null) {
    return <strong class="good">resolved: {value(row.resolution)}</strong>;
  }
  return row.retry_requested_at === null
    ? <strong class="bad">open</strong>
    : <strong>retry requested</strong>;
}
