/**
 * Events that never came. A sweep lists a provider's events, and applies those that
 * neither the ledger nor `failed_events` knows, as if they were delivered. It goes
 * through time in slices, the oldest first, and its place is stored after each.
 */
import type { BillingEvent } from "../../_shared/billing/database/apply_events.ts";
import {
  callFunction,
  type DatabaseFunctions,
} from "../../_shared/billing/database/client.ts";
import {
  describeFailedBody,
  recordFailure,
} from "../../_shared/billing/database/record_failure.ts";
import {
  DeliveryError,
  toDeliveryError,
} from "../../_shared/billing/errors.ts";
import { identifierOrNull } from "../../_shared/billing/events/fields.ts";
import { type Format, typesOf } from "../../_shared/billing/events/format.ts";
import { parseEvent } from "../../_shared/billing/events/parse_event.ts";
import {
  applyAll,
  type ApplyAllOptions,
  type ReadEvent,
} from "../apply_all.ts";
import {
  ApiError,
  type EventSource,
  type Json,
  type KeyedProvider,
  type Slice,
} from "./event_api.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Younger events may be on their way. */
const YOUNGEST_MS = HOUR_MS / 6;

/** How far a sweep goes back behind the end of the last one. */
const OVERLAP_MS = HOUR_MS;

/** A type that was unlisted for longer begins anew: its events were ignored rightly. */
const GONE_MS = 3 * DAY_MS;

/** An older event creates no notification, except that a subscription has ended. */
const NEWS_MS = 3 * DAY_MS;

/** For one run; the next goes on. Supabase gives a request 2 s of processor time. */
const RUN_TIME_MS = 25_000;
const RUN_EVENTS = 1_000;
const RUN_SLICES = 10;

const BATCH_SIZE = 25;

/** Until the next run. */
const RESTS_SECONDS = { done: 3_600, more: 0, failed: 300, refused: 3_600 };

const CALL_LIMIT = { timeLimitMs: 5_000 };

export type SweepCounts = Readonly<{
  listed: number;
  /** Applied, stale or stored as failures. */
  missed: number;
}>;

export const NO_SWEEP: SweepCounts = { listed: 0, missed: 0 };

export interface SweepOptions extends ApplyAllOptions {
  readonly leaseId: string;
  readonly keyedProviders: readonly KeyedProvider[];
}

/**
 * Sweeps the events of each provider with a key, and writes a line to the log for each.
 * If another run has the queue, or the API has asked for a pause, nothing is done. What
 * is wrong with the key or the API is stored in `billing.sweeps`, for an alert.
 *
 * @throws {DeliveryError} If a database call fails. The next run goes on.
 */
export async function sweep(options: SweepOptions): Promise<SweepCounts> {
  let listed = 0;
  let missed = 0;
  for (const keyed of options.keyedProviders) {
    const run = await beginRun(keyed, options);
    if (run === undefined) continue;

    await sweepProvider(keyed, run).catch(async (error) => {
      if (!(error instanceof ApiError)) throw error;
      await endWithError(error, run);
    });
    listed += run.listed;
    missed += run.missed;
  }
  return { listed, missed };
}

/** A run on one provider, and how far it has come. */
interface Run {
  readonly options: SweepOptions;
  readonly provider: string;
  readonly destination: string;
  readonly format: Format;
  readonly endMs: number;
  /** No event from before is applied. */
  readonly notBeforeMs: number;
  /** How far the types that always take effect were compared. */
  sweptMs: number;
  /** The same of each further type that is listed. */
  readonly furtherMs: Map<string, number>;
  position: string | null;
  listed: number;
  missed: number;
  readonly refusedTypes: Set<string>;
}

type State = DatabaseFunctions["billing_claim_sweep"]["Returns"][number];

async function beginRun(
  keyed: KeyedProvider,
  options: SweepOptions,
): Promise<Run | undefined> {
  const { database, leaseId, clock, readingSettings } = options;
  const { provider } = keyed;
  const source = "source" in keyed ? keyed.source : undefined;
  const destination = source?.destination ?? `API of ${provider}`;
  const [state] = await callFunction(database, "billing_claim_sweep", {
    lease_id: leaseId,
    provider,
    destination,
  }, CALL_LIMIT);
  if (state === undefined) return undefined;

  const nowMs = clock();
  const { format } = readingSettings(provider);
  const keptMs = nowMs - (source?.keepsDays ?? 0) * DAY_MS;
  return {
    options,
    provider,
    destination,
    format,
    endMs: wholeSecond(nowMs - YOUNGEST_MS),
    notBeforeMs: Math.max(Date.parse(state.not_before), keptMs),
    sweptMs: state.swept_until ? Date.parse(state.swept_until) : -Infinity,
    furtherMs: furtherTypes(state, { options, format, nowMs }),
    position: state.position,
    listed: 0,
    missed: 0,
    refusedTypes: new Set(),
  };
}

/**
 * Returns how far each further type was compared: what an app handles, and what a
 * setting switches on. Unlike the others, their events were rightly ignored until they
 * were listed. So one that is new, or was gone for long, begins now.
 */
function furtherTypes(
  { swept_until, types }: State,
  { options: { handlerTypes, notify, accountFromCheckout }, format, nowMs }: {
    options: SweepOptions;
    format: Format;
    nowMs: number;
  },
): Map<string, number> {
  const { notices = {}, checkout } = format;
  const listed = new Set([
    ...handlerTypes.fault === undefined ? handlerTypes.types : [],
    ...Object.keys(notices).filter((type) => notify.has(notices[type]!)),
    ...accountFromCheckout && checkout ? [checkout.type] : [],
  ]);
  for (const type of typesOf(format)) listed.delete(type);

  const known = Object.entries(types as Record<string, string>)
    .map(([type, time]) => [type, Date.parse(time)] as const);
  const untilMs = new Map(known);
  const newestMs = Math.max(
    swept_until ? Date.parse(swept_until) : -Infinity,
    ...untilMs.values(),
  );

  return new Map(Array.from(listed, (type) => {
    const typeMs = untilMs.get(type) ?? -Infinity;
    const isKnown = newestMs - typeMs <= GONE_MS;
    return [type, isKnown ? typeMs : nowMs + OVERLAP_MS];
  }));
}

async function sweepProvider(keyed: KeyedProvider, run: Run): Promise<void> {
  if ("fault" in keyed) throw keyed.fault;
  const { source } = keyed;
  const { options: { clock }, endMs } = run;
  const runEndMs = clock() + RUN_TIME_MS;

  // A type that was gone for a short time: all go back to where it stopped.
  const oldestMs = Math.min(run.sweptMs, ...run.furtherMs.values());
  let position = oldestMs < run.sweptMs ? null : run.position;
  let fromMs = wholeSecond(
    Math.max(oldestMs - OVERLAP_MS, run.notBeforeMs),
  );
  let lengthMs = Infinity;

  for (let slices = 0; fromMs < endMs; slices++) {
    const isOver = () => clock() >= runEndMs || run.missed >= RUN_EVENTS;
    if (slices === RUN_SLICES || isOver()) return await settle(run, "more");

    const toMs = Math.min(endMs, fromMs + lengthMs);
    const slice = await readSlice(source, { run, fromMs, toMs, position });
    const isApplied = await applyMissing(slice, { run, isOver });
    if (!isApplied) return await settle(run, "more");

    fromMs = slice.untilMs;
    lengthMs = slice.nextLengthMs ?? Infinity;
    position = slice.position;
    moveTo(slice, run);
    if (fromMs < endMs) {
      const hasQueue = await store(run, { rests: "more" });
      if (!hasQueue) return;
    }
  }
  await settle(run, "done");
}

async function readSlice(
  source: EventSource,
  { run, ...range }: {
    run: Run;
    fromMs: number;
    toMs: number;
    position: string | null;
  },
): Promise<Slice> {
  const { format, furtherMs, refusedTypes } = run;
  const types = [...typesOf(format), ...furtherMs.keys()]
    .filter((type) => !refusedTypes.has(type));
  const slice = await source.readSlice({ ...range, types }, source.get);
  for (const type of slice.refusedTypes ?? []) refusedTypes.add(type);
  return slice;
}

function moveTo({ untilMs, position, events }: Slice, run: Run): void {
  run.sweptMs = untilMs;
  for (const [type, typeMs] of run.furtherMs) {
    run.furtherMs.set(type, Math.max(typeMs, untilMs));
  }
  if (position === null) return;

  // A cursor cannot go back by an hour, so it stays that far behind.
  const last = events.findLast((event) =>
    timeOf(event, run) <= run.endMs - OVERLAP_MS
  );
  const id = last && idOf(last, run);
  run.position = id ?? run.position;
}

/** Applies the events of a slice that are missing; returns whether it came to the end. */
async function applyMissing(
  { events }: Slice,
  { run, isOver }: { run: Run; isOver: () => boolean },
): Promise<boolean> {
  const byId = new Map<string, Json>();
  for (const event of events) {
    if (isDue(event, run)) byId.set(idOf(event, run), event);
  }
  run.listed += byId.size;
  if (byId.size === 0) return true;

  const missing: unknown = await callFunction(
    run.options.database,
    "billing_missing_events",
    { event_ids: [...byId.keys()] },
    CALL_LIMIT,
  );
  const texts = (missing as string[]).map((id) => byId.get(id)!);
  for (let done = 0; done < texts.length;) {
    if (isOver()) return false;
    done += await applyBatch(texts.slice(done, done + BATCH_SIZE), run);
  }
  return true;
}

/** Whether an event is of a listed type, and of the time for which that is swept. */
function isDue(event: Json, run: Run): boolean {
  const { format, furtherMs, endMs, notBeforeMs } = run;
  const type = String(format.partsOf(event).type);
  const typeMs = typesOf(format).includes(type)
    ? -Infinity
    : furtherMs.get(type);
  if (typeMs === undefined) return false;

  const timeMs = timeOf(event, run);
  return timeMs >= Math.max(typeMs - OVERLAP_MS, notBeforeMs) &&
    timeMs < endMs;
}

function idOf(event: Json, { format }: Run): string {
  const id = identifierOrNull(format.partsOf(event).id);
  if (id !== null) return id;
  throw new ApiError("api_unavailable", "The API lists an event without an ID");
}

function timeOf(event: Json, { format }: Run): number {
  const { occurred_at } = format.partsOf(event);
  return Date.parse(format.occurredAt.safeParse(occurred_at).data ?? "");
}

/** Applies events together, and stores those that fail; returns how many it has done. */
async function applyBatch(batch: readonly Json[], run: Run): Promise<number> {
  const { options } = run;
  const read = batch.flatMap((event) => readMissed(event, run) ?? []);
  let results = await applyAll(read, options).catch((error) => {
    if (read.length === 1) throw error;
  });
  if (results === undefined) {
    // Each alone: one of them may be what takes too long.
    results = [];
    for (const event of read) {
      results.push(...await applyAll([event], options));
    }
  }

  for (const [i, result] of results.entries()) {
    if (result === "untried") return batch.length - (results.length - i);
    if (result instanceof DeliveryError) {
      run.missed += await storeFailure(result, { read: read[i]!, run });
    } else if (result === "applied" || result === "stale") {
      run.missed++;
    }
  }
  return batch.length;
}

/** Reads an event as a delivery; undefined if it has no effect here. */
function readMissed(json: Json, run: Run): ReadEvent | undefined {
  const { options, provider, format } = run;
  const text = JSON.stringify(json);
  try {
    const nowMs = options.clock();
    const parsed = parseEvent(text, {
      ...options,
      ...options.readingSettings(provider),
      nowSeconds: nowMs / 1000,
    });
    if (parsed.isIgnored) return undefined;

    const { payment, ...withoutPayment } = parsed.event;
    const isNews = payment?.kind === "ended" ||
      timeOf(json, run) > nowMs - NEWS_MS;
    const event: BillingEvent = {
      ...withoutPayment,
      ...(payment && isNews && { payment }),
      provider,
      is_missed: true,
    };
    return { format, text, event };
  } catch (thrown) {
    return { format, text, fault: toDeliveryError(thrown) };
  }
}

/** Returns 1 if the failure is stored. */
async function storeFailure(
  error: DeliveryError,
  { read: { text, format }, run: { provider, options: { database } } }: {
    read: ReadEvent;
    run: Run;
  },
): Promise<number> {
  const body = new TextEncoder().encode(text);
  const failed = await describeFailedBody(body, {
    format: format!,
    derivedId: undefined,
  });
  const isMissed = true;
  const failure = { provider, failed, isMissed, database } as const;
  const stored = await recordFailure(error, failure);
  return stored === "stored" || stored === "retry" ? 1 : 0;
}

async function settle(run: Run, rests: "done" | "more"): Promise<void> {
  const { provider, listed, missed, sweptMs, refusedTypes } = run;
  const types = [...refusedTypes].join(", ");
  const error = types
    ? `api_refused: The API does not know these types, which are left out: ${types}`
    : undefined;
  await store(run, { rests, error });
  run.options.log(error ? "warn" : "info", "events swept", {
    provider,
    counts: { listed, missed },
    swept_until: isoTime(sweptMs),
    error,
  });
}

async function endWithError(
  { code, message, pauseSeconds }: ApiError,
  run: Run,
): Promise<void> {
  const { provider, listed, missed, options: { log } } = run;
  const error = `${code}: ${message}`;
  const rests = code === "api_unavailable" ? "failed" : "refused";
  await store(run, { rests, error, pauseSeconds, hasFailed: true });
  log("warn", "sweep failed", { provider, counts: { listed, missed }, error });
}

/** Stores how far the run has come; returns whether it still has the queue. */
async function store(
  run: Run,
  { rests, error, pauseSeconds, hasFailed = false }: {
    rests: keyof typeof RESTS_SECONDS;
    error?: string | undefined;
    pauseSeconds?: number | undefined;
    hasFailed?: boolean;
  },
): Promise<boolean> {
  const { options, provider, destination, sweptMs, furtherMs, position } = run;
  const types = Object.fromEntries(
    Array.from(furtherMs, ([type, typeMs]) => [type, isoTime(typeMs) ?? null]),
  );
  return await callFunction(options.database, "billing_settle_sweep", {
    lease_id: options.leaseId,
    provider,
    destination,
    result: {
      swept_until: isoTime(sweptMs),
      types,
      position,
      error,
      has_failed: hasFailed,
      rests_seconds: RESTS_SECONDS[rests],
      pause_seconds: pauseSeconds,
    },
  }, CALL_LIMIT);
}

function wholeSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}

/** Returns undefined for a time that is not known. */
function isoTime(ms: number): string | undefined {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : undefined;
}
