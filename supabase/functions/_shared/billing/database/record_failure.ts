import type { DeliveryError } from "../errors.ts";
import { identifierOrNull, sha256Hex, toBase64 } from "../events/fields.ts";
import { describeEvent, type Format } from "../events/format.ts";
import { parseAny, storableText } from "../events/parse_event.ts";
import { badAnswer, callFunction, type DatabaseClient } from "./client.ts";

/** Short, because the provider is still waiting for the reply. */
const TIME_LIMIT = { timeLimitMs: 1_500 };

/**
 * Describes the body of a failed event. If it has no usable id, it gets `sha256:` with the
 * hash of its body in hex, so that its retries share a row.
 */
export async function describeFailedBody(
  body: Uint8Array<ArrayBuffer>,
  { format, derivedId }: { format: Format; derivedId: string | undefined },
) {
  const text = storableText(body);
  const event = parseAny(text);
  const statedId = identifierOrNull(format.partsOf(event).id);
  const bodyHash = await sha256Hex(body);

  const failed = {
    ...describeEvent(event, format),
    event_id: derivedId ?? statedId ?? `sha256:${bodyHash}`,
    body: text ??
      btoa(Array.from(body, (byte) => String.fromCharCode(byte)).join("")),
    body_encoding: text === undefined ? "base64" : "text",
  };
  return { failed, bodyHash };
}

type FailedEvent = Awaited<ReturnType<typeof describeFailedBody>>["failed"];

export function describeText(text: string, format: Format) {
  return describeEvent(parseAny(text), format);
}

const ANSWERS = ["stored", "retry", "applied", "erased"] as const;

/**
 * Stores a failed event for triage, or counts one more attempt.
 *
 * @returns `applied` if the event was applied before, or `erased` if its account was
 * erased; neither is stored. `retry` if what it lacked exists now, so it will be retried.
 * @throws {DeliveryError} If the database call fails.
 */
export async function recordFailure(
  error: DeliveryError,
  { provider, failed, isMissed, database }: {
    provider: string;
    failed: FailedEvent;
    isMissed?: true;
    database: DatabaseClient;
  },
) {
  const failure = {
    ...failed,
    provider,
    error_code: error.code,
    error: error.message,
    is_missed: isMissed,
  };
  const reply: unknown = await callFunction(
    database,
    "billing_record_failed_event",
    { failure },
    TIME_LIMIT,
  );

  const answer = ANSWERS.find((answer) => answer === reply);
  if (answer === undefined) {
    throw badAnswer("the answer does not say what was stored");
  }
  return answer;
}
