/**
 * Events that never came. A sweep lists a provider's events, and applies those that
 * neither the ledger nor `failed_events` knows. It goes through time in slices, the
 * oldest first, and stores its place after each.
 */
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
import { type Format, typesOf } from "../../_shared/billing/events/format.ts";
import { parseEvent } from "../../_shared/billing/events/parse_event.ts";
import {
  applyAll,
  type ApplyAllOptions,
  type ReadEvent,
} from "../apply_all.ts";
import { ApiError, type Json } from "./event_api.ts";
import type { EventSource, KeyedProvider } from "./event_sources.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Younger events may be on their way. */
const YOUNGEST_MS = HOUR_MS / 6;

/** A sweep begins this long before the end of the last one. */
const OVERLAP_MS = HOUR_MS;

/** A type that was unlisted for longer begins anew. */
const GONE_MS = 3 * DAY_MS;

/** For one run; the next goes on. Supabase gives a request 2 s of processor time. */
const RUN_TIME_MS = 10_000;
const RUN_EVENTS = 2_000;

const BATCH_SIZE = 25;

const CALL_LIMIT = { timeLimitMs: 5_000 };

export const NO_SWEEP = {
  listed: 0,
  /** Applied, stale or stored as failures. */
  missed: 0,
};

export interface SweepOptions extends ApplyAllOptions {
  readonly leaseId: string;
  readonly keyedProviders: readonly KeyedProvider[];
}

/** A run on one provider. */
type Run = SweepOptions & {
  readonly provider: string;
  readonly host: string;
  readonly format: Format;
  readonly startedMs: number;
  /** Only events between these times are applied. */
  readonly notBeforeMs: number;
  readonly endMs: number;
  /** How far the types that always take effect were swept. */
  sweptMs: number;
  /** How far each further type was swept. */
  readonly furtherMs: Map<string, number>;
  /** The stored place, if the provider has cursors. */
  position: string | null;
  /** Whether the next run begins just there, and not an hour before. */
  goesOn: boolean;
  isDone: boolean;
  readonly refusedTypes: Set<string>;
  listed: number;
  missed: number;
  failed: number;
};

/**
 * Sweeps the events of each provider with a key. Does nothing if another run has the
 * queue, or while the API has asked for a pause. What is wrong with the key or the API is
 * stored in `billing.sweeps`, for an alert.
 *
 * @throws {DeliveryError} If a database call fails.
 */
export async function sweep(options: SweepOptions): Promise<typeof NO_SWEEP> {
  const sum = { ...NO_SWEEP };
  for (const keyed of options.keyedProviders) {
    const run = await beginRun(keyed, options);
    if (run === undefined) continue;

    let fault: ApiError | undefined;
    try {
      if ("fault" in keyed) throw keyed.fault;
      await sweepSource(keyed.source, run);
    } catch (thrown) {
      if (!(thrown instanceof ApiError)) throw thrown;
      fault = thrown;
      // The provider may have deleted the event that the list goes on from.
      if (fault.code === "api_refused") run.position = null;
    }
    await endRun(run, fault);
    sum.listed += run.listed;
    sum.missed += run.missed;
  }
  return sum;
}

type State = DatabaseFunctions["billing_claim_sweep"]["Returns"][number];

async function beginRun(
  keyed: KeyedProvider,
  options: SweepOptions,
): Promise<Run | undefined> {
  const { provider } = keyed;
  const { host = provider, keepsDays = 0 } = "source" in keyed
    ? keyed.source
    : {};
  const [state] = await callFunction(options.database, "billing_claim_sweep", {
    lease_id: options.leaseId,
    provider,
    destination: host,
  }, CALL_LIMIT);
  if (state === undefined) return undefined;

  const startedMs = options.clock();
  const { format } = options.readingSettings(provider);
  const keptMs = startedMs - keepsDays * DAY_MS;
  return {
    ...options,
    provider,
    host,
    format,
    startedMs,
    notBeforeMs: Math.max(msOf(state.not_before), keptMs),
    endMs: wholeSecond(startedMs - YOUNGEST_MS),
    sweptMs: msOf(state.swept_until),
    furtherMs: furtherTypes(state, { ...options, format, startedMs }),
    position: state.position,
    goesOn: state.goes_on,
    isDone: false,
    refusedTypes: new Set(),
    ...NO_SWEEP,
    failed: 0,
  };
}

/**
 * Returns how far each type that a setting switches on was swept. Its events were ignored
 * rightly until then, so one that is new, or was gone for long, begins now.
 */
function furtherTypes(
  state: State,
  { handlerTypes, notify, accountFromCheckout, format, startedMs }:
    & SweepOptions
    & Pick<Run, "format" | "startedMs">,
): Map<string, number> {
  const { notices = {}, checkout } = format;
  const listed = new Set([
    ...(handlerTypes.fault ? [] : handlerTypes.types),
    ...Object.keys(notices).filter((type) => notify.has(notices[type]!)),
    ...(accountFromCheckout && checkout ? [checkout.type] : []),
  ]);
  for (const type of typesOf(format)) listed.delete(type);

  const swept = new Map(Object.entries<string>(Object(state.types)));
  const goneMs = msOf(state.swept_until) - GONE_MS;
  return new Map(Array.from(listed, (type) => {
    const sweptMs = msOf(swept.get(type));
    const goesOn = swept.has(type) && sweptMs >= goneMs;
    return [type, goesOn ? sweptMs : startedMs + OVERLAP_MS];
  }));
}

async function sweepSource(
  { readSlice, get }: EventSource,
  run: Run,
): Promise<void> {
  const { format, furtherMs, refusedTypes, endMs } = run;
  // If a type was gone for a short time, all go back to where it stopped.
  const oldestMs = Math.min(run.sweptMs, ...furtherMs.values());
  let position = oldestMs < run.sweptMs ? null : run.position;
  const overlapMs = run.goesOn ? 0 : OVERLAP_MS;
  let fromMs = wholeSecond(Math.max(oldestMs - overlapMs, run.notBeforeMs));
  let lengthMs = Infinity;

  while (fromMs < endMs) {
    if (isOver(run)) return;
    const toMs = Math.min(endMs, fromMs + lengthMs);
    const types = [...typesOf(format), ...furtherMs.keys()]
      .filter((type) => !refusedTypes.has(type));
    const slice = await readSlice({ fromMs, toMs, position, types }, get);
    for (const type of slice.refusedTypes ?? []) refusedTypes.add(type);

    const isApplied = await applyMissing(slice.events, run);
    if (!isApplied) return;

    fromMs = slice.untilMs;
    lengthMs = slice.nextLengthMs ?? Infinity;
    run.sweptMs = fromMs;
    run.goesOn = fromMs < endMs;
    for (const [type, sweptMs] of furtherMs) {
      furtherMs.set(type, Math.max(sweptMs, fromMs));
    }
    if (slice.position !== undefined) {
      ({ position } = slice);
      // A cursor cannot go back by an hour, so it is stored that far behind.
      const last = slice.events.findLast((event) =>
        timeOf(event, run) <= endMs - OVERLAP_MS
      );
      if (last) run.position = idOf(last, run);
    }
    const hasQueue = await store(run);
    if (!hasQueue) return;
  }
  run.isDone = true;
}

function isOver({ clock, startedMs, missed, failed }: Run): boolean {
  // To store a failure takes over five times as long as to apply an event.
  return clock() >= startedMs + RUN_TIME_MS ||
    missed + 4 * failed >= RUN_EVENTS;
}

/** Applies the events that are missing; returns whether there was time for all. */
async function applyMissing(
  events: readonly Json[],
  run: Run,
): Promise<boolean> {
  const due = events.filter((event) => isDue(event, run));
  const byId = new Map(due.map((event) => [idOf(event, run), event]));
  if (byId.size === 0) return true;

  run.listed += byId.size;
  const missing = await callFunction(run.database, "billing_missing_events", {
    event_ids: [...byId.keys()],
  }, CALL_LIMIT);
  const left = missing.flatMap((id) => readMissed(byId.get(id)!, run) ?? []);
  while (left.length > 0) {
    if (isOver(run)) return false;
    left.splice(0, await applyBatch(left.slice(0, BATCH_SIZE), run));
  }
  return true;
}

/** Whether an event is of a type that is swept, and of the time for which it is. */
function isDue(event: Json, run: Run): boolean {
  const { format, furtherMs, notBeforeMs, endMs } = run;
  const type = String(format.partsOf(event).type);
  const sweptMs = typesOf(format).includes(type)
    ? -Infinity
    : furtherMs.get(type) ?? Infinity;
  const timeMs = timeOf(event, run);
  return timeMs >= Math.max(sweptMs - OVERLAP_MS, notBeforeMs) &&
    timeMs < endMs;
}

/** Reads an event as a delivery; undefined if it has no effect here. */
function readMissed(json: Json, run: Run): ReadEvent | undefined {
  const { provider, format, startedMs, readingSettings } = run;
  const text = JSON.stringify(json);
  try {
    const parsed = parseEvent(text, {
      ...run,
      ...readingSettings(provider),
      nowSeconds: startedMs / 1000,
    });
    if (parsed.isIgnored) return undefined;

    const event = { ...parsed.event, provider, is_missed: true } as const;
    return { format, text, event };
  } catch (thrown) {
    return { format, text, fault: toDeliveryError(thrown) };
  }
}

/** Applies events, or stores their failures; returns how many it has done. */
async function applyBatch(
  batch: readonly ReadEvent[],
  run: Run,
): Promise<number> {
  const results = await applyAll(batch, run).catch(async () => {
    // One of them may be what takes too long.
    const alone = [];
    for (const event of batch) alone.push(...await applyAll([event], run));
    return alone;
  });

  for (const [i, result] of results.entries()) {
    if (result === "untried") return i;
    if (result instanceof DeliveryError) {
      run.failed++;
      run.missed += await storeFailure(result, batch[i]!, run);
    } else if (result === "applied" || result === "stale") {
      run.missed++;
    }
  }
  return batch.length;
}

/** Returns how many failures were stored: one or none. */
async function storeFailure(
  error: DeliveryError,
  { text }: ReadEvent,
  { format, provider, database }: Run,
): Promise<number> {
  const body = new TextEncoder().encode(text);
  const derivedId = undefined;
  const { failed } = await describeFailedBody(body, { format, derivedId });
  const failure = { provider, failed, isMissed: true, database } as const;
  const answer = await recordFailure(error, failure);
  return answer === "stored" || answer === "retry" ? 1 : 0;
}

async function endRun(run: Run, fault: ApiError | undefined): Promise<void> {
  const { provider, listed, missed, sweptMs, refusedTypes } = run;
  let error = fault && `${fault.code}: ${fault.message}`;
  if (refusedTypes.size > 0) {
    const types = [...refusedTypes].join(", ");
    error ??= `api_refused: The API does not know, and leaves out: ${types}`;
  }
  await store(run, fault, error);
  run.log(error ? "warn" : "info", fault ? "sweep failed" : "events swept", {
    provider,
    counts: { listed, missed },
    swept_until: isoTime(sweptMs),
    error,
  });
}

/** Stores how far the run has come; returns whether it still has the queue. */
async function store(
  run: Run,
  fault?: ApiError,
  error?: string,
): Promise<boolean> {
  const { database, leaseId, provider, host, position } = run;
  const types = Array.from(run.furtherMs, ([type, ms]) => [type, isoTime(ms)]);
  return await callFunction(database, "billing_settle_sweep", {
    lease_id: leaseId,
    provider,
    destination: host,
    result: {
      swept_until: isoTime(run.sweptMs),
      types: Object.fromEntries(types),
      position,
      goes_on: run.goesOn,
      error,
      has_failed: fault !== undefined,
      rests_seconds: restAfter(run, fault),
      pause_seconds: fault?.pauseSeconds,
    },
  }, CALL_LIMIT);
}

/** Returns when the next run is due, in seconds. */
function restAfter({ isDone, sweptMs }: Run, fault?: ApiError): number {
  if (!isDone && !fault) return 0;
  // Just installed: nothing is due, so the key is untried.
  return fault || sweptMs === -Infinity ? 300 : 3_600;
}

function idOf(event: Json, { format }: Run): string {
  return String(format.partsOf(event).id);
}

function timeOf(event: Json, { format }: Run): number {
  const { occurred_at } = format.partsOf(event);
  return msOf(format.occurredAt.safeParse(occurred_at).data);
}

function wholeSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}

/** Returns a time in ms; -Infinity if it is missing. */
function msOf(text: string | null | undefined): number {
  return text ? Date.parse(text) : -Infinity;
}

function isoTime(ms: number): string | undefined {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : undefined;
}
