import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import {
  type Format,
  kindOf,
} from "../../supabase/functions/_shared/billing/events/format.ts";
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import { readEventId } from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/signatures/local_stack.ts";
import { describeFailedBody } from "../../supabase/functions/_shared/billing/database/record_failure.ts";
import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import { givenProjectUrl, readSecret } from "../common/option_values.ts";
import { openApi, type ProjectAccess } from "../common/project_api.ts";
import type { RunningStack } from "../common/running_stack.ts";
import { wrap } from "../common/print.ts";
import type { SubscriptionRecord } from "./stated_event.ts";

/** Of a line on standard error: what a terminal of 80 columns shows whole. */
export const MAX_COLUMNS = 79;

const SUBSCRIPTION_COLUMNS =
  "id,account_id,status,provider_status,plan_id,quantity,current_period_end,cancel_at,trial_end,canceled_at";
const NOTIFICATION_COLUMNS =
  "id,kind,account_id,subscription_id,status,attempts,last_error";

type SentEvent = Awaited<ReturnType<typeof sentEvent>>;

export interface Result {
  readonly lines: readonly string[];
  /** Of its row in `billing.failed_events`. */
  readonly errorCode?: string | undefined;
  /** Whether the ledger has the event. */
  readonly isClaimed?: boolean;
}

/** Returns the project that a URL belongs to, if its secret key is known. */
export function projectOf(
  url: string,
  { local, env }: {
    readonly local: RunningStack | undefined;
    readonly env: Environment;
  },
): ProjectAccess | undefined {
  const isOf = (project: string) => url.startsWith(`${project}/`);
  if (local && isOf(local.apiUrl)) {
    return { projectUrl: local.apiUrl, secretKey: local.secretKey };
  }
  const secretKey = readSecret("SUPABASE_SECRET_KEY", env);
  const hosted = secretKey && givenProjectUrl(undefined, env);
  if (hosted && isOf(hosted)) return { projectUrl: hosted, secretKey };
  // Each local stack has the same key, which is in its source.
  const { origin, pathname } = new URL(url);
  return isLoopback(url) && pathname.startsWith("/functions/v1/")
    ? { projectUrl: origin, secretKey: LOCAL_SECRET_KEY }
    : undefined;
}

/** Returns what the receiver reads of a body, whatever it contains. */
export async function sentEvent(
  body: Uint8Array<ArrayBuffer>,
  { provider, format: name, deliveryId }: {
    readonly provider: string;
    readonly format: FormatName;
    readonly deliveryId: string | undefined;
  },
) {
  const format: Format = FORMATS[name];
  const handledTypes = { types: new Set<string>() };
  const options = { format, deliveryId, handledTypes };
  const eventId = await readEventId(body, options);
  const { eventId: id, event } = await describeFailedBody(body, {
    format,
    eventId,
  });
  const { type = "", subscription_id = "", customer_id = "" } = event;
  const about = { subscription: subscription_id, customer: customer_id };
  return { provider, format, id, type, ...about };
}

export async function readRecord(
  project: ProjectAccess,
  { provider, subscription }: Pick<SentEvent, "provider" | "subscription">,
): Promise<SubscriptionRecord | undefined> {
  const ids = { provider: `eq.${provider}`, id: `eq.${subscription}` };
  const [row] = await openApi(project).read("billing_subscriptions", ids);
  return row;
}

/**
 * Returns when a subscription must have been created, in Unix seconds: before its
 * earliest event that failed for want of the creation; undefined if there is none.
 */
export async function createdBefore(
  project: ProjectAccess,
  { provider, subscription }: Pick<SentEvent, "provider" | "subscription">,
): Promise<number | undefined> {
  const [row] = await openApi(project).read("billing_failed_events", {
    select: "occurred_at",
    provider: `eq.${provider}`,
    subscription_id: `eq.${subscription}`,
    resolved_at: "is.null",
    occurred_at: "not.is.null",
    error_code: "in.(subscription_unknown,creation_pending)",
    order: "occurred_at",
    limit: "1",
  });
  return row && Math.floor(Date.parse(`${row.occurred_at}`) / 1000) - 1;
}

export async function readLedger(
  project: ProjectAccess,
  { provider, id }: SentEvent,
): Promise<string | undefined> {
  const [row] = await openApi(project).read("billing_processed_events", {
    select: "outcome",
    provider: `eq.${provider}`,
    event_id: `eq.${id}`,
  });
  return row?.outcome ?? undefined;
}

/**
 * Returns what an event came to, and the row that it changed or left.
 *
 * @param options.wasApplied Whether the ledger had the event before it was sent.
 */
export async function readResult(
  project: ProjectAccess,
  event: SentEvent,
  { status, wasApplied }: {
    readonly status: number;
    readonly wasApplied: boolean;
  },
): Promise<Result> {
  const { provider, format, id, type, subscription, customer } = event;
  const kind = kindOf(format, type);
  const api = openApi(project);
  const ofEvent = { provider: `eq.${provider}`, event_id: `eq.${id}` };
  if (status < 200 || status > 299) {
    const select = "error_code,error,attempts,last_failed_at";
    const open = { select, ...ofEvent, resolved_at: "is.null" };
    const [row] = await api.read("billing_failed_events", open);
    return row === undefined ? { lines: ["failed: nothing was stored."] } : {
      lines: ["failed. The row in billing.failed_events:", ...rowLines(row)],
      errorCode: row.error_code,
    };
  }
  const outcome = await readLedger(project, event);
  if (outcome === undefined) return { lines: ["ignored: nothing was stored."] };
  const found = /payment_failed|notice/.test(kind ?? "")
    ? ["notifications", { select: NOTIFICATION_COLUMNS, ...ofEvent }] as const
    : type === format.checkout?.type
    ? ["customers", {
      select: "customer_id,account_id,created_at",
      provider: ofEvent.provider,
      customer_id: `eq.${customer}`,
    }] as const
    : kind
    ? ["subscriptions", {
      select: SUBSCRIPTION_COLUMNS,
      id: `eq.${subscription}`,
    }] as const
    : undefined;
  const [row] = found ? await api.read(`billing_${found[0]}`, found[1]) : [];
  const isHandlers = row === undefined && kind === undefined;
  const head = wasApplied
    ? "duplicate: the event was applied before."
    : outcome === "stale"
    ? "stale: newer events had been applied."
    : isHandlers
    ? `applied: billing.${handlerName(type)} ran.`
    : "applied.";
  const lines = row
    ? [`${head} The row in billing.${found?.[0]}:`, ...rowLines(row)]
    : [isHandlers ? head : `${head} There is no row in billing.${found?.[0]}.`];
  return { lines, isClaimed: true };
}

function rowLines(row: object): readonly string[] {
  const columns = Object.entries(row).filter(([, value]) => value !== null);
  const width = Math.max(...columns.map(([name]) => name.length));
  return columns.flatMap(([name, value]) =>
    wrap(`${value}`, MAX_COLUMNS - width - 4)
      .map((text, i) => `  ${(i === 0 ? name : "").padEnd(width)}  ${text}`)
  );
}
