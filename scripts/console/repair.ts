/** Checks a repaired payload as the receiver does, and stores it. */
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { databaseError } from "../../supabase/functions/_shared/billing/database/database_errors.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  type Format,
  withPlaces,
} from "../../supabase/functions/_shared/billing/events/format.ts";
import { FORMATS } from "../../supabase/functions/_shared/billing/events/formats.ts";
import type { WireEvent } from "../../supabase/functions/_shared/billing/events/event.ts";
import {
  type ParsedEvent,
  parseEvent,
} from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { whyIgnored } from "../../supabase/functions/_shared/billing/settings/why_ignored.ts";
import { asTyped } from "../common/environment.ts";
import { ProjectError } from "../common/project_api.ts";
import type { Failure } from "./failures.tsx";
import { type Draft, prettyJson } from "./payload.tsx";
import type { Project } from "./project.ts";

type Settings = Awaited<ReturnType<Project["settings"]>>;

const NO_EFFECT = {
  duplicate: "The event was applied already",
  erased: "Its account was erased",
};
const CHANGED =
  "The failure has changed since you opened this page. Compare your text with the payload that is there now, and save again.";

/**
 * Stores a repaired payload exactly as written, if the event would have an effect.
 *
 * @returns why a retry would fail now, or an empty text
 * @throws {ProjectError} With a line for each fault.
 */
export async function repair(
  project: Project,
  failure: Failure,
  { text, version }: Draft,
): Promise<string> {
  if (version !== failure.version) throw new ProjectError(CHANGED);
  const settings = await project.settings();
  const event = readRepair(text, failure, settings);

  const { provider, event_id } = failure;
  const tried = await project.tryEvent({ provider, ...event });
  const { outcome } = tried;
  if (outcome === "erased" || outcome === "duplicate") {
    throw new ProjectError(
      `${NO_EFFECT[outcome]}, so a retry would do nothing. Resolve it instead.`,
    );
  }
  const { code, message } = withPlaces(
    databaseError(tried.error_code ?? "", tried.error ?? ""),
    formatOf(failure, settings),
  );
  const hasFailed = outcome === "failed";
  if (hasFailed && /^(?:event_invalid|account_unknown)$/.test(code)) {
    throw new ProjectError(message);
  }

  const changed = await project.update("billing_failed_events", {
    provider: `eq.${provider}`,
    event_id: `eq.${event_id}`,
    version: `eq.${version}`,
    // The API stores only this column, whatever else the text sets.
    columns: "payload",
  }, `{"payload":${text}}`);
  if (changed !== 1) throw new ProjectError(CHANGED);
  return hasFailed ? `A retry would fail now: ${code}: ${message}` : "";
}

/** Returns the format of a failure's provider; Stripe's if the worker does not report it. */
export function formatOf({ provider }: Failure, settings: Settings): Format {
  return FORMATS[settings?.formats?.[provider] ?? "stripe"];
}

/** It must have an effect, differ from what is stored, and be about the same event. */
function readRepair(
  json: string,
  failure: Failure,
  settings: Settings,
): WireEvent {
  const { provider, event_id, payload } = failure;
  const parsed = parseRepair(json, failure, settings);

  if (parsed.isIgnored) {
    if (settings === undefined) {
      throw new ProjectError(
        `type: the worker does not answer, and only it knows whether HANDLE_EVENT_TYPES or NOTIFY includes ${parsed.type}. Check it with: ${
          asTyped("doctor")
        }`,
      );
    }
    const format = formatOf(failure, settings);
    const why = whyIgnored(parsed, { provider, format });
    throw new ProjectError(
      `type: ${why}. If the event is not needed, resolve it instead.`,
    );
  }

  // An event without a usable ID is stored under the hash of its body.
  if (!event_id.startsWith("sha256:") && event_id !== parsed.event.event_id) {
    throw new ProjectError(
      `id: must be ${event_id}. With another one, a retry would apply that event instead.`,
    );
  }
  if (payload !== null && prettyJson(json) === prettyJson(payload)) {
    throw new ProjectError(
      "Nothing is changed. To try the same payload again, retry the event.",
    );
  }
  return parsed.event;
}

function parseRepair(
  json: string,
  failure: Failure,
  settings: Settings,
): ParsedEvent {
  const format = formatOf(failure, settings);
  const { handledTypes, handledTypesFault: fault, notify, ...rest } =
    settings ?? {};
  try {
    JSON.parse(json);
    return parseEvent(json, {
      ...rest,
      format,
      id: format.idOf && failure.event_id,
      nowSeconds: Date.now() / 1000,
      toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
      handlerTypes: { types: new Set(handledTypes), ...(fault && { fault }) },
      notify: new Set(notify),
    });
  } catch (error) {
    if (error instanceof DeliveryError) {
      throw new ProjectError(error.message.replaceAll("; ", "\n"));
    }
    if (!(error instanceof SyntaxError)) throw error;
    // The JSON parser's message says where.
    throw new ProjectError(`This is not JSON: ${error.message}`);
  }
}
