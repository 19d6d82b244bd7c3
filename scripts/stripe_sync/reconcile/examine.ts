import type { Compared } from "../compare_page.ts";
import { allSubscriptionIds, openFailures } from "../records.ts";
import { comparePages } from "./compare_pages.ts";
import type { Finding } from "./finding.ts";
import { failedFinding, findingOf, undeliveredFinding } from "./finding_of.ts";
import { missedEvents, stillMissed } from "./missed_events.ts";
import type { Scope } from "./scope.ts";

/** What was found, and what would mend a part of it. */
export interface Examination {
  readonly findings: readonly Finding[];
  readonly compared: readonly Compared[];
}

/**
 * An event that is on its way makes a difference that goes by itself. So what
 * differs is looked at twice, so many milliseconds apart.
 */
const SECOND_LOOK_AFTER = 2_000;

/** Where none of so many is there, the key is of another account. */
const ASKED_FOR = 100;

/** Compares the provider's subscriptions and events with the tables. */
export async function examine(scope: Scope): Promise<Examination> {
  const { provider, tables, sleep, unmappedSubscriptions } = scope;
  // Before the provider is asked: what is recorded by now, it has by now.
  const idsHere = await allSubscriptionIds(tables);
  const listed = await comparePages(provider.subscriptions(), { scope });
  const unlisted = idsHere.filter((id) => !listed.ids.has(id));
  // Stripe's list leaves out the subscriptions of test clocks.
  const asked = await compareUnlisted(unlisted, scope);
  const missed = await missedEvents(provider, scope);
  const differing = listed.different.length + asked.different.length;
  if (differing + missed.length > 0) await sleep(SECOND_LOOK_AFTER);

  const compared = [
    ...await compareAgain(listed, scope),
    ...await compareAgain({ ...asked, pages: Infinity }, scope),
  ];
  const failures = await openFailures(tables);
  const failed = new Set(failures.map(({ event_id }) => event_id));
  const undelivered = (await stillMissed(missed, scope))
    .filter(({ event }) => !failed.has(event.id));
  return {
    compared,
    findings: [
      ...compared.flatMap(findingOf).filter(({ kind }) =>
        kind !== "unmapped" || unmappedSubscriptions === "fail"
      ),
      ...unlisted.filter((id) => !asked.ids.has(id)).map((subscription) => ({
        kind: "missing_there" as const,
        subscription,
      })),
      ...undelivered.map(undeliveredFinding),
      ...failures.map(failedFinding),
    ],
  };
}

/** Asks for them one by one, for as long as any is there. */
async function compareUnlisted(
  ids: readonly string[],
  scope: Scope,
): Promise<{ ids: ReadonlySet<string>; different: readonly Compared[] }> {
  const found = new Set<string>();
  const different: Compared[] = [];
  for (let i = 0; i < ids.length; i += ASKED_FOR) {
    const part = await comparePages(
      scope.provider.someSubscriptions(ids.slice(i, i + ASKED_FOR)),
      { scope },
    );
    if (part.ids.size === 0) break;
    part.ids.forEach((id) => found.add(id));
    different.push(...part.different);
  }
  return { ids: found, different };
}

/** One by one, or all of them once more, whichever asks less. */
async function compareAgain(
  { different, pages }: { different: readonly Compared[]; pages: number },
  scope: Scope,
): Promise<readonly Compared[]> {
  const { provider } = scope;
  const ids = different.map(({ id }) => id);
  const again = ids.length <= pages
    ? provider.someSubscriptions(ids)
    : provider.subscriptions();
  const only = new Set(ids);
  return (await comparePages(again, { scope, only })).different;
}
