import type { Compared } from "../compare_page.ts";
import type { OpenFailure } from "../records.ts";
import type { Finding } from "./finding.ts";
import type { MissedEvent } from "./missed_events.ts";

/** What a comparison found; nothing where it found the same. */
export function findingOf(
  { id: subscription, comparison }: Compared,
): Finding[] {
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

/** An event that was not delivered. */
export function undeliveredFinding(
  { event, subscription }: MissedEvent,
): Finding {
  return {
    kind: "undelivered",
    event: event.id,
    type: event.type,
    subscription,
  };
}

/** An event that failed here. */
export function failedFinding(
  { event_id, type, subscription_id, error_code }: OpenFailure,
): Finding {
  return {
    kind: "failed",
    event: event_id,
    type,
    subscription: subscription_id,
    error_code,
  };
}
