/** @jsxImportSource hono/jsx */
/** The payload of a failure: shown with what a repair changed, edited and stored. */
import type { Child } from "hono/jsx";
// Not by name, which an older Deno does not have: see deno_version.ts.
import * as util from "node:util";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { databaseError } from "../../supabase/functions/_shared/billing/database/database_errors.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  type Format,
  withPlaces,
} from "../../supabase/functions/_shared/billing/events/format.ts";
import { FORMATS } from "../../supabase/functions/_shared/billing/events/formats.ts";
import type { EventToApply } from "../../supabase/functions/_shared/billing/events/event.ts";
import { whyIgnored } from "../../supabase/functions/_shared/billing/settings/why_ignored.ts";
import {
  type ParsedEvent,
  parseEvent,
} from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { asTyped } from "../common/how_started.ts";
import { ProjectError } from "../common/project_api.ts";
import type { Failure } from "./failures.tsx";
import type { Project, Update } from "./project.ts";
import * as ui from "./ui.tsx";

const SHOWN = 64 * 1024;
/** In characters: a browser's text field gets slow with more. */
const LONGEST_DRAFT = 2 * 1024 * 1024;
/** Of a text to compare. Time and memory grow with its square. */
const MAX_LINES = 1_000;

const ONE_STRING =
  "Postgres cannot store this body as JSON, or only with numbers of more than 40 digits. So it is stored in one JSON string: as text, or as base64 if it is not text.";
const UNCHANGED = "Nothing is changed. To try the event as it is, retry it.";
const NO_EFFECT = {
  duplicate:
    "The event was applied already, so a retry would do nothing. Resolve it instead.",
  erased:
    "Its account was erased, so a retry would do nothing. Resolve it instead.",
};
const TOO_LONG =
  "It is too long to edit in a browser. Repair it in the SQL editor: see docs/operate.md.";
const CHANGED =
  "The failure has changed since you opened this page. Compare your text with the payload that is there now, and save again.";

export interface Draft {
  readonly text: string;
  /** Of the row that the editing began with. */
  readonly version: string;
  /** Why it was not saved. */
  readonly faults?: readonly string[];
}

/** Writes hidden characters as JSON does, such as \u202e. */
function escapeHidden(json: string): string {
  const hidden = new RegExp(`(?![\\t\\n\\r])${ui.HIDDEN.source}`, "gu");
  const escape = (unit: string) =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return json.replace(hidden, (one) => one.split("").map(escape).join(""));
}

export function parseExactly(json: string) {
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
  return JSON.parse(
    json,
    (_, value, { source = "" } = {}) =>
      typeof value === "number" ? rawJSON(source) : value,
  );
}

export function prettyJson(json: string): string {
  try {
    return escapeHidden(JSON.stringify(parseExactly(json), null, 2));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return escapeHidden(json); // too deep to be indented
  }
}

export function payloadSection(
  failure: Failure,
  draft: Draft | undefined,
): Child {
  const { payload, original } = failure;
  if (payload === null) {
    return "The payload was deleted: payloads of resolved failures are kept for 30 days.";
  }
  const pretty = prettyJson(payload);
  const received = original === null ? pretty : prettyJson(original);
  const isCut = [pretty, received].some((text) =>
    text.length > SHOWN || original && text.split("\n").length > MAX_LINES
  );
  const marked = (line: string) => {
    if (line.startsWith("-")) return <del>{line}</del>;
    return line.startsWith("+") ? <ins>{line}</ins> : `${line}\n`;
  };
  const unchanged = failure.payload_encoding === "text"
    ? escapeHidden(JSON.parse(payload))
    : pretty.length > SHOWN
    ? escapeHidden(payload)
    : pretty;
  return [
    failure.resolved_at === null && (
      <details open={draft !== undefined}>
        <summary role="button" class="outline">Repair</summary>
        {repairForm(failure, draft?.text ?? unchanged, draft?.faults)}
      </details>
    ),
    failure.payload_encoding !== "json" && <p>{ONE_STRING}</p>,
    original !== null &&
    <p>Repaired: - is what was received, + is what a retry applies.</p>,
    <pre tabindex={0}>
      {original === null
        ? pretty.slice(0, SHOWN)
        : compareLines(received, pretty).map(marked)}
    </pre>,
    isCut && <p>Only the beginning is shown. The SQL editor has all of it.</p>,
  ];
}

/**
 * Compares the beginnings of two texts. A line of the result begins with "-" if
 * only the first text has it, and with "+" if only the second has it. "…" stands
 * for lines that are equal, and not near a change.
 */
export function compareLines(before: string, after: string): string[] {
  const [a, b] = [before, after]
    .map((text) => text.slice(0, SHOWN).split("\n").slice(0, MAX_LINES));
  // Node's diff: 1 for a line of the first text only, -1 of the second only.
  const lines = util.diff(a!, b!) as [1 | 0 | -1, string][];
  const isNear = (at: number) =>
    lines.slice(Math.max(0, at - 4), at + 5).some(([operation]) => operation);
  return lines.flatMap(([operation, line], i) => {
    if (isNear(i)) return [`${" -+".at(operation)}${line}`];
    return i === 0 || isNear(i - 1) ? ["…"] : [];
  });
}

function repairForm(
  failure: Failure,
  text: string,
  faults: readonly string[] = [],
): Child {
  if (text.length > LONGEST_DRAFT) return TOO_LONG;
  const content = (
    <>
      {faults.length > 0 && (
        <article class="bad" role="alert">
          Not saved:
          <ul>{faults.map((fault) => <li>{ui.visible(fault)}</li>)}</ul>
        </article>
      )}
      <label>
        Payload, as JSON
        <textarea
          {...{ name: "text", autocomplete: "off", rows: 24, wrap: "off" }}
          {...{ spellcheck: false, required: true }}
          // The browser shows it, and the reason above it.
          autofocus={faults.length > 0}
        >
          {text}
        </textarea>
      </label>
      <p>
        It is checked as the receiver checks it, and the database tries it.
        Saving changes nothing else: retry the event afterwards. What was
        received is kept.
      </p>
      <button>Check and save</button>
    </>
  );
  // A longer statement is of no use on a page.
  const shown = text.length > SHOWN ? undefined : repairOf(failure, text);
  return ui.form("/failure/repair", versionOf(failure), content, shown);
}

export function versionOf({ provider, event_id, version }: Failure): ui.Fields {
  return { provider, event: event_id, version: version ?? "" };
}

function repairOf({ provider, event_id }: Failure, text: string): Update {
  const set = { payload: text.replaceAll("\r\n", "\n") };
  return { update: "failed_events", set, where: { provider, event_id } };
}

/**
 * Stores a repaired payload as the text that it is, if the receiver would accept
 * it, the event would have an effect, and nobody else has changed the failure.
 *
 * @returns why a retry would fail now, or an empty text
 * @throws {ProjectError} With what is wrong, a line each.
 */
export async function repair(
  project: Project,
  failure: Failure,
  { text, version }: Draft,
): Promise<string> {
  if (version !== failure.version) throw new ProjectError(CHANGED);
  const settings = await project.settings();
  const event = readRepair(text, failure, settings);
  const { provider } = failure;
  const tried = await project.tryEvent({ provider, ...event });
  const { outcome } = tried;
  if (outcome === "erased" || outcome === "duplicate") {
    throw new ProjectError(NO_EFFECT[outcome]);
  }
  const { code, message } = withPlaces(
    databaseError(tried.error_code ?? "", tried.error ?? ""),
    formatOf(failure, settings),
  );
  const hasFailed = outcome === "failed";
  if (hasFailed && /^(?:event_invalid|account_unknown)$/.test(code)) {
    throw new ProjectError(message);
  }
  const changed = await project.update(repairOf(failure, text), {
    // The API takes this column from the body, whatever else that holds.
    more: { version: `eq.${version}`, columns: "payload" },
    body: `{"payload":${text}}`,
  });
  if (changed !== 1) throw new ProjectError(CHANGED);
  return hasFailed ? `A retry would fail now: ${code}: ${message}` : "";
}

type Settings = Awaited<ReturnType<Project["settings"]>>;

/** Returns the format of a failure's provider; Stripe's if the worker does not say it. */
export function formatOf({ provider }: Failure, settings: Settings): Format {
  return FORMATS[settings?.formats?.[provider] ?? "stripe"];
}

/**
 * Reads a repaired payload as the receiver does: it must have an effect, differ from
 * what is stored, and still be about the same event.
 */
function readRepair(
  json: string,
  failure: Failure,
  settings: Settings,
): EventToApply {
  const { provider, event_id, payload } = failure;
  const format = formatOf(failure, settings);
  const { handledTypes, handledTypesFault: fault, notify, ...rest } =
    settings ?? {};
  let parsed: ParsedEvent;
  try {
    JSON.parse(json);
    parsed = parseEvent(json, {
      ...rest,
      format,
      id: format.idOf && event_id,
      nowSeconds: Date.now() / 1000,
      toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
      handledTypes: { types: new Set(handledTypes), ...(fault && { fault }) },
      notify: new Set(notify),
    });
  } catch (error) {
    if (error instanceof DeliveryError) {
      throw new ProjectError(error.message.replaceAll("; ", "\n"));
    }
    if (!(error instanceof SyntaxError)) throw error;
    // In the words of the JSON parser, which say where.
    throw new ProjectError(`This is not JSON: ${error.message}`);
  }
  if (!parsed.handled) {
    throw new ProjectError(
      settings === undefined
        ? `type: the worker does not answer, and only it knows whether HANDLE_EVENT_TYPES or NOTIFY needs ${parsed.type}. Check it with: ${
          asTyped("doctor")
        }`
        : `type: ${
          whyIgnored(parsed, { provider, format })
        }. If the event is not needed, resolve it instead.`,
    );
  }
  // An event without a usable ID is stored under the hash of its body.
  if (!event_id.startsWith("sha256:") && event_id !== parsed.event.event_id) {
    throw new ProjectError(
      `id: must be ${event_id}. With another one, a retry would apply that event instead.`,
    );
  }
  if (payload !== null && prettyJson(json) === prettyJson(payload)) {
    throw new ProjectError(UNCHANGED);
  }
  return parsed.event;
}
