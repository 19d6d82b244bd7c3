import type { Comparison } from "./compare.ts";
import { comparePages } from "./compare_pages.ts";
import type { Context } from "./context.ts";
import type { Difference } from "./difference.ts";
import { missedEvents, stillMissed } from "./missed_events.ts";
import { openFailures } from "./recorded_events.ts";
import { allSubscriptionIds } from "./records.ts";
import { ITEMS_PER_PAGE, type Page } from "./stripe_source.ts";

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
}

/**
 * An event on its way makes a difference that goes away by itself. So what
 * differs is compared again after this time.
 */
const SECOND_LOOK_AFTER_MS = 2_000;

/** Compares Stripe's subscriptions and events with the tables. */
export async function findDifferences(
  context: Context,
): Promise<FoundDifferences> {
  const { stripe, unmappedSubscriptions } = context;
  // Read before Stripe is asked: Stripe has whatever is recorded by now.
  const recordedIds = await allSubscriptionIds(context);
  const listed = await compareAll(stripe.subscriptions(), context);
  const unlistedIds = recordedIds.filter((id) => !listed.ids.has(id));
  // The list leaves out subscriptions of test clocks, for example.
  const unlisted = await compareSome(unlistedIds, context);
  const missed = await missedEvents(context);
  const doubtful = [...listed.different, ...unlisted.different, ...missed];
  if (doubtful.length > 0) await context.wait(SECOND_LOOK_AFTER_MS);

  const comparisons = [
    ...await compareListedAgain(listed, context),
    ...(await compareSome(idsOf(unlisted), context)).different,
  ];
  const failures = await openFailures(context);
  const failed = new Set(failures.map(({ event }) => event));
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
        .map((id) => ({ kind: "missing_there" as const, subscription: id })),
      ...undelivered.map(({ event, subscription }) => ({
        kind: "undelivered" as const,
        event: event.id,
        type: event.type,
        subscription,
      })),
      ...failures.map((failure) => ({ kind: "failed" as const, ...failure })),
    ],
  };
}

/** @param only Leaves out all other subscriptions. */
async function compareAll(
  source: AsyncIterable<Page>,
  context: Context,
  only?: ReadonlySet<string>,
): Promise<Pass> {
  const ids = new Set<string>();
  const different: Comparison[] = [];
  for await (const page of comparePages(source, context, { only })) {
    for (const comparison of page) {
      ids.add(comparison.subscription);
      if (comparison.difference !== undefined) different.push(comparison);
    }
    context.onProgress(`${ids.size} subscriptions compared`);
    context.signal.throwIfAborted();
  }
  return { ids, different };
}

function compareSome(ids: readonly string[], context: Context): Promise<Pass> {
  return compareAll(context.stripe.someSubscriptions(ids), context);
}

/** Compares what differed again: one by one, or with the list if that is shorter. */
async function compareListedAgain(
  listed: Pass,
  context: Context,
): Promise<readonly Comparison[]> {
  const ids = idsOf(listed);
  const again = ids.length <= listed.ids.size / ITEMS_PER_PAGE
    ? await compareSome(ids, context)
    : await compareAll(context.stripe.subscriptions(), context, new Set(ids));
  return again.different;
}

function idsOf({ different }: Pass): string[] {
  return different.map(({ subscription }) => subscription);
}
