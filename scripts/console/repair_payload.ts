import type { Project } from "./project.ts";
import {
  ProjectError,
  refusal,
  TIME_LIMIT_MS,
  UnknownOutcome,
} from "./refusal.ts";
import type { FailureKey } from "./sql.ts";

/**
 * Stores a repaired payload. The text goes to Postgres as it is: JSON.parse and
 * JSON.stringify would round its large numbers. The client cannot do that.
 *
 * @param repair.json A single JSON value; the caller has parsed it.
 * @param repair.version Of the failure as the caller has read it. One that has
 * changed since is left alone.
 * @throws {UnknownOutcome} If there is no answer that can be read.
 */
export async function repairPayload(
  project: Project,
  { provider, eventId }: FailureKey,
  { json, version }: { json: string; version: string },
): Promise<void> {
  const query = new URLSearchParams({
    provider: `eq.${provider}`,
    event_id: `eq.${eventId}`,
    version: `eq.${version}`,
    // The API takes this column from the body, whatever else it holds.
    columns: "payload",
    select: "event_id",
  });
  const path = `/rest/v1/billing_failed_events?${query}`;
  const response = await project.request(path, {
    method: "PATCH",
    headers: {
      "content-type": "application/json",
      "content-profile": "public",
      prefer: "return=representation",
    },
    body: `{"payload":${json}}`,
    signal: AbortSignal.timeout(TIME_LIMIT_MS),
  }).catch((error: Error) => {
    const { message, hint } = refusal(error, { status: 0, url: project.url });
    throw new UnknownOutcome(message, hint);
  });
  const answer = await response.json().catch(() => undefined);
  if (!response.ok) {
    throw refusal(answer ?? {}, { status: response.status, url: project.url });
  }
  if (!Array.isArray(answer)) {
    throw new UnknownOutcome(
      "It is not known whether the repair was saved: the database's answer cannot be read.",
      "Open the failure in another tab to see; this page keeps your text.",
    );
  }
  if (answer.length !== 1) {
    throw new ProjectError(
      "Nothing was changed: the failure changed at the same moment, or is gone.",
      "Save again: the console compares what is there now.",
    );
  }
}
