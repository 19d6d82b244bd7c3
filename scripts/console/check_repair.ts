import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";

/** An event without a usable ID is stored under the hash of its body. */
const HASHED = /^sha256:/;

/**
 * Returns what is wrong with a repaired payload, one line per field; none if the
 * receiver accepts it, it has an effect, and it is still about the same event.
 *
 * @param options.eventId Of the failure.
 * @param options.nowSeconds Unix time.
 */
export function faultsOf(
  json: string,
  { eventId, nowSeconds }: { eventId: string; nowSeconds: number },
): readonly string[] {
  try {
    const parsed = parseEvent(json, {
      nowSeconds,
      toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
    });
    if (parsed.handled) {
      return HASHED.test(eventId) || parsed.event.event_id === eventId ? [] : [
        `id: must be ${eventId}. With another one, a retry would apply that event instead.`,
      ];
    }
    return [
      parsed.reason === "not_handled"
        ? `type: ${parsed.type} has no effect here, so a retry would ignore the event. If it is not needed, resolve it instead.`
        : `type: ${parsed.type} is a thin event without content, so a retry would ignore it. If it is not needed, resolve it instead.`,
    ];
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    return error.code === "event_invalid"
      ? error.message.split("; ")
      : [syntaxFault(json)];
  }
}

/** Returns where the text stops being JSON, in the words of the JSON parser. */
function syntaxFault(json: string): string {
  try {
    JSON.parse(json);
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
  return "The payload is empty.";
}
