import { describeFailedBody } from "../../supabase/functions/_shared/billing/record_failure.ts";
import type { SentEvent } from "./read_result.ts";

/** Returns what the receiver files a body under, whatever it contains. */
export async function sentEvent(
  body: Uint8Array<ArrayBuffer>,
  provider: string,
): Promise<SentEvent> {
  const { eventId, event: { type = "" } } = await describeFailedBody(body);
  return { provider, id: eventId, type, subscription: subscriptionOf(body) };
}

/** Of an event about a subscription; empty if there is none. */
function subscriptionOf(body: Uint8Array): string {
  try {
    return String(JSON.parse(new TextDecoder().decode(body)).data.object.id);
  } catch {
    return "";
  }
}
