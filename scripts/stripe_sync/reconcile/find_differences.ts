import type { UnmappedChoice } from "../../../supabase/functions/_shared/billing/unmapped.ts";
import type { CommandContext } from "../command_context.ts";
import { comparePages, type Comparison } from "../compare.ts";
import type { Difference } from "../difference.ts";
import { allSubscriptionIds, openFailures } from "../records.ts";
import type { Page } from "../stripe_source.ts";
import { missedEvents, stillMissed } from "./missed_events.ts";

/** What `reconcile` works with. */
export interface ReconcileContext extends CommandContext {
  readonly accountFrom: string | undefined;
  readonly unmappedSubscriptions: UnmappedChoice;
  /** Receives how many subscriptions were compared, after each page. */
  readonly onPage: (compared: number) => void;
}

/** All differences, and the comparisons that can correct some of them. */
export interface FoundDifferences {
  readonly differences: readonly Difference[];
  readonly comparisons: readonly Comparison[];
}

/** The outcome of one pass over pages of Stripe's subscriptions. */
interface Pass {
  /** The IDs of all that were compared. */
  readonly ids: ReadonlySet<string>;
  readonly different: readonly Comparison[];
  readonly pages: number;
}

/**
 * An event on its way makes a difference that goes away by itself. So what
 * differs is compared again after this time.
 */
const SECOND_LOOK_AFTER_MS = 2_000;

/** If Stripe has none of this many, the key is of another account. */
const UNLISTED_PER_PASS = 100;

/** Compares Stripe's subscriptions and events with the tables. */
export async function findDifferences(
  context: ReconcileContext,
): Promise<FoundDifferences> {
  const { stripe, tables, sleep, unmappedSubscriptions } = context;
  // Read before Stripe is asked: Stripe has whatever is recorded by now.
  const recordedIds = await allSubscriptionIds(tables);
  const listed = await compareAll(stripe.subscriptions(), context);
  const unlistedIds = recordedIds.filter((id) => !listed.ids.has(id));
  const unlisted = await compareUnlisted(unlistedIds, context);
  const missed = await missedEvents(context);
  const doubtful = listed.different.length + unlisted.different.length +
    missed.length;
  if (doubtful > 0) await sleep(SECOND_LOOK_AFTER_MS);

  const comparisons = [
    ...await compareAgain(listed, context),
    ...await compareAgain(unlisted, context),
  ];
  const failures = await openFailures(tables);
  const failed = new Set(failures.map(({ event_id }) => event_id));
  const undelivered = (await stillMissed(missed, context))
    .filter(({ event }) => !failed.has(event.id));
  return {
    comparisons,
    differences: [
      ...comparisons.flatMap(({ difference }) => difference ?? [])
        .filter(({ kind }) =>
          kind !== "unmapped" || unmappedSubscriptions === "fail"
        ),
      ...unlistedIds.filter((id) => !unlisted.ids.has(id))
        .map((subscription) => ({
          kind: "missing_there" as const,
          subscription,
        })),
      ...undelivered.map(({ event, subscription }) => ({
        kind: "undelivered" as const,
        event: event.id,
        type: event.type,
        subscription,
      })),
      ...failures.map(({ event_id, type, subscription_id, error_code }) => ({
        kind: "failed" as const,
        event: event_id,
        type,
        subscription: subscription_id,
        error_code,
      })),
    ],
  };
}

/** @param only Leaves out all other subscriptions. */
async function compareAll(
  source: AsyncIterable<Page>,
  context: ReconcileContext,
  only?: ReadonlySet<string>,
): Promise<Pass> {
  const { tables, accountFrom, onPage, signal } = context;
  const ids = new Set<string>();
  const different: Comparison[] = [];
  let pages = 0;
  for await (
    const page of comparePages(source, { tables, accountFrom, only })
  ) {
    for (const comparison of page) {
      ids.add(comparison.subscription);
      if (comparison.difference !== undefined) different.push(comparison);
    }
    pages++;
    onPage(ids.size);
    signal.throwIfAborted();
  }
  return { ids, different, pages };
}

/**
 * Compares the recorded subscriptions that Stripe's list leaves out, such as
 * those of test clocks. Stripe has to be asked for them one by one.
 */
async function compareUnlisted(
  recordedIds: readonly string[],
  context: ReconcileContext,
): Promise<Pass> {
  const ids = new Set<string>();
  const different: Comparison[] = [];
  for (let i = 0; i < recordedIds.length; i += UNLISTED_PER_PASS) {
    const part = recordedIds.slice(i, i + UNLISTED_PER_PASS);
    const pass = await compareAll(
      context.stripe.someSubscriptions(part),
      context,
    );
    if (pass.ids.size === 0) break;
    pass.ids.forEach((id) => ids.add(id));
    different.push(...pass.different);
  }
  return { ids, different, pages: Infinity };
}

/** Compares what differed again: one by one, or with the list if that is shorter. */
async function compareAgain(
  { different, pages }: Pass,
  context: ReconcileContext,
): Promise<readonly Comparison[]> {
  const { stripe } = context;
  const ids = different.map(({ subscription }) => subscription);
  const source = ids.length <= pages
    ? stripe.someSubscriptions(ids)
    : stripe.subscriptions();
  return (await compareAll(source, context, new Set(ids))).different;
}
