/** What became of an event. */
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
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { describeFailedBody } from "../../supabase/functions/_shared/billing/database/record_failure.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  givenProjectUrl,
  readSecret,
  type Surroundings,
} from "../common/option_values.ts";
import { openApi, type ProjectAccess } from "../common/project_api.ts";
import { wrap } from "../common/cli.ts";
import type { SubscriptionRecord } from "./stated_event.ts";

/** The longest line that a terminal of 80 columns does not wrap. */
const MAX_COLUMNS = 79;

type SentEvent = Awaited<ReturnType<typeof sentEvent>>;

export interface Result {
  readonly lines: readonly string[];
  readonly errorCode?: string | undefined;
  /** Whether the ledger has the event. */
  readonly isClaimed?: boolean;
}

/** Returns the project of a URL, if its secret key is known. */
export function projectOf(
  url: string,
  { local, env }: Pick<Surroundings, "local" | "env">,
): ProjectAccess | undefined {
  const isOf = (project: string) => url.startsWith(`${project}/`);
  // Each local stack has the same key, which is in its source.
  if (local && isOf(local.apiUrl)) {
    return { projectUrl: local.apiUrl, secretKey: LOCAL_SECRET_KEY };
  }
  const secretKey = readSecret("SUPABASE_SECRET_KEY", env);
  const hosted = secretKey && givenProjectUrl(undefined, env);
  if (hosted && isOf(hosted)) return { projectUrl: hosted, secretKey };
  const { origin, pathname } = new URL(url);
  return isLoopback(url) && pathname.startsWith("/functions/v1/")
    ? { projectUrl: origin, secretKey: LOCAL_SECRET_KEY }
    : undefined;
}

/** Returns what the receiver reads from a body, even if it refuses the event. */
export async function sentEvent(
  body: Uint8Array<ArrayBuffer>,
  { provider, format: name, deliveryId }: {
    provider: string;
    format: FormatName;
    deliveryId?: string | undefined;
  },
) {
  const format: Format = FORMATS[name];
  const derivedId = await readEventId(body, {
    format,
    deliveryId,
    handlerTypes: { types: new Set<string>() },
  });
  const { failed } = await describeFailedBody(body, { format, derivedId });
  return {
    provider,
    format,
    id: failed.event_id,
    type: failed.type ?? "",
    subscription: failed.subscription_id ?? "",
    customer: failed.customer_id ?? "",
  };
}

export async function readRecord(
  project: ProjectAccess,
  { provider, subscription }: SentEvent,
): Promise<SubscriptionRecord | undefined> {
  const [row] = await openApi(project).read("billing_subscriptions", {
    provider: `eq.${provider}`,
    id: `eq.${subscription}`,
  });
  return row;
}

/**
 * Returns a time before the earliest event of the subscription that failed for lack of
 * a creation, in Unix seconds; undefined if none did.
 */
export async function createdBefore(
  project: ProjectAccess,
  { provider, subscription }: SentEvent,
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

/** @param options.wasApplied Whether the ledger had the event before it was sent. */
export async function readResult(
  project: ProjectAccess,
  event: SentEvent,
  { status, wasApplied }: { status: number; wasApplied: boolean },
): Promise<Result> {
  if (status < 200 || status > 299) return await readFailure(project, event);
  const outcome = await readLedger(project, event);
  if (outcome === undefined) return { lines: ["ignored: nothing was stored."] };

  const { format, type } = event;
  const [table, query] = placeOf(event) ?? [];
  const [row] = table
    ? await openApi(project).read(`billing_${table}`, query)
    : [];
  const isForHandler = row === undefined && kindOf(format, type) === undefined;

  let head = isForHandler
    ? `applied: billing.${handlerName(type)} ran.`
    : "applied.";
  if (outcome === "stale") head = "stale: newer events had been applied.";
  if (wasApplied) head = "duplicate: the event was applied before.";

  let lines = [head];
  if (row) {
    lines = [`${head} The row in billing.${table}:`, ...rowLines(row)];
  } else if (!isForHandler) {
    lines = [`${head} There is no row in billing.${table}.`];
  }
  return { lines, isClaimed: true };
}

async function readFailure(
  project: ProjectAccess,
  { provider, id }: SentEvent,
): Promise<Result> {
  const [row] = await openApi(project).read("billing_failed_events", {
    select: "error_code,error,attempts,last_failed_at",
    provider: `eq.${provider}`,
    event_id: `eq.${id}`,
    resolved_at: "is.null",
  });
  if (row === undefined) return { lines: ["failed: nothing was stored."] };
  return {
    lines: ["failed. The row in billing.failed_events:", ...rowLines(row)],
    errorCode: row.error_code,
  };
}

/** Returns where the row of an event is; undefined for a handler's event. */
function placeOf(event: SentEvent) {
  const { format, type } = event;
  const provider = `eq.${event.provider}`;
  const kind = kindOf(format, type);
  if (/payment_failed|notice/.test(kind ?? "")) {
    return ["notifications", {
      select: "id,kind,account_id,subscription_id,status,attempts,last_error",
      provider,
      event_id: `eq.${event.id}`,
    }] as const;
  }
  if (type === format.checkout?.type) {
    return ["customers", {
      select: "customer_id,account_id,created_at",
      provider,
      customer_id: `eq.${event.customer}`,
    }] as const;
  }
  return kind && ["subscriptions", {
    select:
      "id,account_id,status,provider_status,plan_id,quantity,current_period_end,cancel_at,trial_end,canceled_at",
    id: `eq.${event.subscription}`,
  }] as const;
}

function rowLines(row: object): readonly string[] {
  const columns = Object.entries(row).filter(([, value]) => value !== null);
  const width = Math.max(...columns.map(([name]) => name.length));
  return columns.flatMap(([name, value]) =>
    wrap(`${value}`, MAX_COLUMNS - width - 4)
      .map((text, i) => `  ${(i === 0 ? name : "").padEnd(width)}  ${text}`)
  );
}
