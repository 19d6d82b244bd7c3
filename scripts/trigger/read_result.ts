import { restHeaders } from "../common/rest_headers.ts";
import { restRefusal } from "../common/rest_refusal.ts";
import { type RequestTools, sendRequest } from "../common/send_request.ts";

/** The project whose tables are read. */
export interface Project {
  /** Without a slash at its end. */
  readonly url: string;
  readonly secretKey: string;
}

/** An event that was sent. */
export interface SentEvent {
  readonly provider: string;
  readonly id: string;
  readonly type: string;
  readonly subscription: string;
}

/** What an event came to. */
export interface Result {
  /** For a person: the outcome, and the row. */
  readonly lines: readonly string[];
  /** Of the row in `billing.failed_events`, if there is one. */
  readonly errorCode?: string;
}

/** A row, without the columns that are null. */
export type Row = Readonly<Record<string, unknown>>;

const SUBSCRIPTION_COLUMNS =
  "id,account_id,status,provider_status,plan_id,current_period_end,canceled_at";
const NOTIFICATION_COLUMNS = "id,account_id,subscription_id,status,attempts";
const FAILURE_COLUMNS = "error_code,error,attempts,last_failed_at";

/**
 * Returns the ledger's outcome of an event, `applied` or `stale`; undefined if
 * it was not applied.
 *
 * @throws {Error} If the REST API does not answer with rows.
 */
export async function readLedger(
  project: Project,
  { provider, id }: Pick<SentEvent, "provider" | "id">,
  tools?: RequestTools,
): Promise<string | undefined> {
  const filter = { provider, event_id: id };
  const row = await readRow(project, {
    table: "processed_events",
    columns: "outcome",
    filter,
  }, tools);
  return row === undefined ? undefined : String(row["outcome"]);
}

/**
 * Returns what an event came to, and the row that it changed or left.
 *
 * @param options.status Of the receiver's answer.
 * @param options.wasApplied Whether the ledger had the event before it was sent.
 * @throws {Error} If the REST API does not answer with rows.
 */
export async function readResult(
  project: Project,
  event: SentEvent,
  { status, wasApplied, tools }: {
    readonly status: number;
    readonly wasApplied: boolean;
    readonly tools?: RequestTools;
  },
): Promise<Result> {
  const { provider, id, type, subscription } = event;
  const ofEvent = { provider, event_id: id };
  if (status < 200 || status > 299) {
    const table = "failed_events";
    const columns = FAILURE_COLUMNS;
    const filter = { ...ofEvent, resolved_at: null };
    const row = await readRow(project, { table, columns, filter }, tools);
    return row === undefined ? { lines: ["failed: nothing was stored."] } : {
      lines: ["failed. The row in billing.failed_events:", ...rowLines(row)],
      errorCode: String(row["error_code"]),
    };
  }
  const outcome = await readLedger(project, event, tools);
  if (outcome === undefined) {
    return { lines: ["ignored: nothing was stored."] };
  }
  const [table, columns, filter] = type === "invoice.payment_failed"
    ? ["notifications", NOTIFICATION_COLUMNS, ofEvent] as const
    : ["subscriptions", SUBSCRIPTION_COLUMNS, { id: subscription }] as const;
  const row = await readRow(project, { table, columns, filter }, tools);
  const head = wasApplied
    ? "duplicate: the event was applied before."
    : outcome === "stale"
    ? "stale: newer events had been applied."
    : "applied.";
  return {
    lines: row === undefined
      ? [`${head} There is no row in billing.${table}.`]
      : [`${head} The row in billing.${table}:`, ...rowLines(row)],
  };
}

async function readRow(
  { url, secretKey }: Project,
  { table, columns, filter }: {
    readonly table: string;
    readonly columns: string;
    readonly filter: Readonly<Record<string, string | null>>;
  },
  tools?: RequestTools,
): Promise<Row | undefined> {
  const query = new URLSearchParams({ select: columns });
  for (const [name, value] of Object.entries(filter)) {
    query.append(name, value === null ? "is.null" : `eq.${value}`);
  }
  const reply = await sendRequest(
    `${url}/rest/v1/billing_${table}?${query}`,
    { headers: { ...restHeaders(secretKey), "accept-profile": "public" } },
    tools,
  );
  if ("fault" in reply) throw new Error(reply.fault);
  if (reply.status === 404) {
    throw new Error(`the REST API does not know public.billing_${table}`);
  }
  if (reply.status !== 200) {
    throw new Error(restRefusal(reply.status, url)[0]);
  }
  const [row] = JSON.parse(reply.body) as Row[];
  return row;
}

function rowLines(row: Row): readonly string[] {
  const columns = Object.entries(row).filter(([, value]) => value !== null);
  const width = Math.max(...columns.map(([name]) => name.length));
  return columns.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
}
