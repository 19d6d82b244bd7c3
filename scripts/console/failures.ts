/**
 * Reads failures from the database.
 *
 * @module
 */
import type { FailureFilter } from "./failure_filter.ts";
import { ask, type Project } from "./project.ts";
import type { ProjectError } from "./refusal.ts";
import type { FailureKey } from "./sql.ts";

/** How many rows a list has. */
export const PAGE_SIZE = 50;

const LISTED =
  "provider, event_id, type, subscription_id, error_code, error, attempts, first_failed_at, last_failed_at, retry_requested_at, resolved_at, resolution";

// As text, since JSON.parse rounds large numbers.
const SHOWN =
  `${LISTED}, account_id, payload_encoding, resolution_note, resolved_by, occurred_at, retry_lease_id, version, payload:payload::text, original:original_payload::text` as const;

/** A failure in a list. */
export type ListedFailure = NonNullable<
  Awaited<ReturnType<typeof listFailures>>
>["failures"][number];

/** A failure with its payload, as JSON text. */
export type Failure = NonNullable<Awaited<ReturnType<typeof readFailure>>>;

/** PostgREST's code for a range that begins after the last row. */
const NO_SUCH_RANGE = "PGRST103";

/**
 * Returns one page of the failures that match, the newest first; undefined if
 * there are not as many pages.
 */
export async function listFailures(
  project: Project,
  { filter, page }: { filter: FailureFilter; page: number },
) {
  const first = (page - 1) * PAGE_SIZE;
  const list = await ask(project, (signal) => {
    const newest = filter.state === "open" ? "last_failed_at" : "resolved_at";
    return matching(
      project.database.from("billing_failed_events").select(LISTED, {
        count: "exact",
      }),
      filter,
    )
      .order(newest, { ascending: false })
      .order("event_id")
      .range(first, first + PAGE_SIZE - 1)
      .abortSignal(signal);
  }).catch((error: ProjectError) => {
    if (error.code !== NO_SUCH_RANGE) throw error;
    return undefined;
  });
  return list && { failures: list.data, count: list.count };
}

// Counts read a row, too: after HEAD, PostgREST 12 closes the connection without
// saying so, and the next request on it fails.

/** Returns how many open failures a retry of all that match would retry. */
export async function countToRetry(
  project: Project,
  filter: FailureFilter,
): Promise<number> {
  const { count } = await ask(project, (signal) =>
    matching(
      project.database.from("billing_failed_events")
        .select("event_id", { count: "exact" }),
      { ...filter, state: "open" },
    ).not("payload", "is", null).limit(1).abortSignal(signal));
  return count;
}

/** Returns a failure; undefined if there is none of that key. */
export async function readFailure(
  project: Project,
  { provider, eventId }: FailureKey,
) {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_failed_events").select(SHOWN)
        .eq("provider", provider).eq("event_id", eventId)
        .abortSignal(signal),
  );
  return data[0];
}

/** Returns how many failures of a code are open. */
export async function countOpen(
  project: Project,
  code: string,
): Promise<number> {
  const { count } = await ask(
    project,
    (signal) =>
      project.database.from("billing_failed_events")
        .select("event_id", { count: "exact" })
        .is("resolved_at", null).eq("error_code", code)
        .limit(1).abortSignal(signal),
  );
  return count;
}

/** Returns the newest failures that have a value in a column. */
export async function failuresWith(
  project: Project,
  column: "subscription_id" | "account_id" | "event_id",
  value: string,
): Promise<readonly ListedFailure[]> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_failed_events").select(LISTED)
        .eq(column, value)
        .order("last_failed_at", { ascending: false })
        .limit(PAGE_SIZE).abortSignal(signal),
  );
  return data;
}

/** What {@linkcode matching} uses of a query. */
interface Query<Self> {
  is(column: "resolved_at", value: null): Self;
  not(column: "resolved_at", operator: "is", value: null): Self;
  eq(column: "error_code" | "type", value: string): Self;
  gte(column: "last_failed_at", value: string): Self;
  lt(column: "last_failed_at", value: string): Self;
}

/** Adds the conditions of a filter to a query. */
function matching<Of extends Query<Of>>(
  query: Of,
  { state, code, type, since, until }: FailureFilter,
): Of {
  let narrowed = state === "open"
    ? query.is("resolved_at", null)
    : query.not("resolved_at", "is", null);
  if (code !== undefined) narrowed = narrowed.eq("error_code", code);
  if (type !== undefined) narrowed = narrowed.eq("type", type);
  if (since !== undefined) narrowed = narrowed.gte("last_failed_at", since);
  if (until !== undefined) narrowed = narrowed.lt("last_failed_at", until);
  return narrowed;
}
