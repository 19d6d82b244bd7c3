import { type Compared, comparePage } from "../provider/compare_page.ts";
import type { Workplace } from "../provider/run_command.ts";
import { allSubscriptionIds, openFailures } from "../provider/records.ts";
import type { UnmappedChoice } from "../../supabase/functions/_shared/unmapped.ts";
import type { Finding } from "./finding.ts";
import {
  type MissedEvent,
  missedEvents,
  stillMissed,
} from "./missed_events.ts";

/** What is looked at, and how. */
export interface Scope extends Workplace {
  readonly accountFrom: string | undefined;
  readonly unmappedSubscriptions: UnmappedChoice;
}

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

/** Compares the provider's subscriptions and events with the tables. */
export async function examine(scope: Scope): Promise<Examination> {
  const { provider, tables, signal, sleep } = scope;
  // Before the provider is asked: what it made after that is in neither list
  // alone, and what is recorded by now it had by now.
  const idsHere = await allSubscriptionIds(tables);
  const idsThere = new Set<string>();
  const wanting = new Set<string>();
  let pages = 0;
  for await (const page of provider.subscriptions()) {
    pages++;
    for (const { id, comparison } of await comparePage(page, scope)) {
      idsThere.add(id);
      if (comparison.result !== "same") wanting.add(id);
    }
    signal.throwIfAborted();
  }
  const missed = await missedEvents(provider, scope);
  if (wanting.size + missed.length > 0) await sleep(SECOND_LOOK_AFTER);

  const compared = await compareAgain(wanting, { scope, pages });
  const failures = await openFailures(tables);
  const failed = new Set(failures.map(({ event_id }) => event_id));
  const undelivered = (await stillMissed(missed, scope))
    .filter(({ event }) => !failed.has(event.id));
  return {
    compared,
    findings: [
      ...compared.flatMap(findingOf).filter(({ kind }) =>
        kind !== "unmapped" || scope.unmappedSubscriptions === "fail"
      ),
      ...idsHere.filter((id) => !idsThere.has(id)).map((subscription) => ({
        kind: "missing_there" as const,
        subscription,
      })),
      ...undelivered.map(undeliveredFinding),
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

/** One by one, or all of them once more, whichever asks less. */
async function compareAgain(
  ids: ReadonlySet<string>,
  { scope, pages }: { scope: Scope; pages: number },
): Promise<Compared[]> {
  const { provider, signal } = scope;
  const again = ids.size <= pages
    ? provider.someSubscriptions([...ids])
    : provider.subscriptions();
  const compared: Compared[] = [];
  for await (const { subscriptions, askedAt } of again) {
    const page = {
      subscriptions: subscriptions.filter(({ id }) => ids.has(id)),
      askedAt,
    };
    compared.push(
      ...(await comparePage(page, scope))
        .filter(({ comparison }) => comparison.result !== "same"),
    );
    signal.throwIfAborted();
  }
  return compared;
}

function findingOf({ id: subscription, comparison }: Compared): Finding[] {
  switch (comparison.result) {
    case "same":
      return [];
    case "unmapped": {
      const customer = comparison.customer ?? null;
      return [{ kind: "unmapped", subscription, customer }];
    }
    case "unreadable":
      return [{ kind: "unreadable", subscription, error: comparison.error }];
    case "missing": {
      const { account } = comparison;
      return [{ kind: "missing_here", subscription, account }];
    }
    case "differs":
      return [{ kind: "differs", subscription, fields: comparison.fields }];
  }
}

function undeliveredFinding({ event, subscription }: MissedEvent): Finding {
  return {
    kind: "undelivered",
    event: event.id,
    type: event.type,
    subscription,
  };
}
