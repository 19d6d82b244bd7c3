/** @jsxImportSource hono/jsx */
/**
 * The payload of a failure: shown with what a repair changed, edited, checked and
 * stored.
 */
import type { Child } from "hono/jsx";
import { createHash } from "node:crypto";
import { diff } from "node:util";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import { databaseError } from "../../supabase/functions/_shared/billing/database_errors.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  FORMATS,
} from "../../supabase/functions/_shared/billing/formats/formats.ts";
import {
  type EventToApply,
  parseEvent,
} from "../../supabase/functions/_shared/billing/parse_event.ts";
import { asTyped } from "../common/how_started.ts";
import type { Failure, FailureKey } from "./failures.tsx";
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
  "Somebody has changed the payload since you opened this page. Copy your text, open this failure again, and begin with what is there now.";

/** What is edited. */
export interface Draft {
  readonly text: string;
  /** Of the payload that the editing began with. */
  readonly hash: string;
  /** Why it was not saved. */
  readonly faults?: readonly string[];
}

/**
 * Returns the payload with an account, for one that names none; undefined if it is
 * no event, or too deep.
 */
export function withAccount(
  json: string | null,
  accountId: string,
): string | undefined {
  try {
    const event = parseExactly(json ?? "");
    const { object } = event.data;
    object.metadata = { ...object.metadata, accountId };
    return JSON.stringify(event);
  } catch {
    return undefined;
  }
}

/** Writes hidden characters as JSON does, such as \u202e. */
function escapeHidden(json: string): string {
  const hidden = new RegExp(`(?![\\t\\n\\r])${ui.HIDDEN.source}`, "gu");
  const escape = (unit: string) =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return json.replace(hidden, (one) => one.split("").map(escape).join(""));
}

/** Parses JSON text. Numbers are written again as they were. */
function parseExactly(json: string) {
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
  return JSON.parse(
    json,
    (_, value, { source = "" } = {}) =>
      typeof value === "number" ? rawJSON(source) : value,
  );
}

/** Indents JSON text. Numbers stay as they are written. */
export function prettyJson(json: string): string {
  try {
    return escapeHidden(JSON.stringify(parseExactly(json), null, 2));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return escapeHidden(json); // too deep to be indented
  }
}

/** Returns the payload, with what a repair changed, and the repair itself. */
export function payloadSection(
  failure: Failure,
  { draft, isAdvised }: { draft: Draft | undefined; isAdvised: boolean },
): Child {
  const { provider, event_id: event, payload, original } = failure;
  if (payload === null) {
    return "The payload was deleted: payloads of resolved failures are kept for 30 days.";
  }
  const download = (which: string, text: string) => (
    <a href={ui.link("/failure/payload", { provider, event, which })} download>
      Download the {text}
    </a>
  );
  const pretty = prettyJson(payload);
  const unchanged = pretty.length > SHOWN ? escapeHidden(payload) : pretty;
  const text = failure.payload_encoding === "text"
    ? escapeHidden(JSON.parse(payload))
    : unchanged;
  const editor = failure.resolved_at === null && (
    <details open={draft !== undefined}>
      <summary role="button" class={isAdvised ? "" : "outline"}>
        Repair
      </summary>
      {repairForm(failure, draft ?? { text, hash: hashOf(payload) })}
    </details>
  );
  const received = original === null ? pretty : prettyJson(original);
  const isCut = [pretty, received].some((text) =>
    text.length > SHOWN || original && text.split("\n").length > MAX_LINES
  );
  const marked = (line: string) => {
    if (line.startsWith("-")) return <del>{line}</del>;
    return line.startsWith("+") ? <ins>{line}</ins> : `${line}\n`;
  };
  return [
    editor,
    failure.payload_encoding !== "json" && <p>{ONE_STRING}</p>,
    original !== null &&
    <p>Repaired: - is what was received, + is what a retry applies.</p>,
    <pre tabindex={0}>
      {original === null
        ? pretty.slice(0, SHOWN)
        : compareLines(received, pretty).map(marked)}
    </pre>,
    isCut && <p>Only the beginning is shown: download all of it.</p>,
    download("payload", "payload"),
    " ",
    original !== null && download("original", "payload as it was received"),
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
  const lines = diff(a!, b!) as [1 | 0 | -1, string][];
  const isNear = (at: number) =>
    lines.slice(Math.max(0, at - 4), at + 5).some(([operation]) => operation);
  return lines.flatMap(([operation, line], i) => {
    if (isNear(i)) return [`${" -+".at(operation)}${line}`];
    return i === 0 || isNear(i - 1) ? ["…"] : [];
  });
}

function repairForm(key: FailureKey, { text, hash, faults }: Draft): Child {
  if (text.length > LONGEST_DRAFT) return TOO_LONG;
  const fields = { provider: key.provider, event: key.event_id, hash };
  const area = {
    ...{ rows: 24, wrap: "off", spellcheck: false, required: true },
    // The browser shows it, and the reason above it.
    autofocus: faults !== undefined,
  };
  const content = (
    <>
      {faults && (
        <article class="bad" role="alert">
          Not saved:
          <ul>{faults.map((fault) => <li>{ui.visible(fault)}</li>)}</ul>
        </article>
      )}
      <label>
        Payload, as JSON
        <textarea name="text" autocomplete="off" {...area}>{text}</textarea>
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
  const shown = text.length > SHOWN ? undefined : repairOf(key, text);
  return ui.form("/failure/repair", fields, content, shown);
}

export function hashOf(text: string | null): string {
  return createHash("sha256").update(text ?? "").digest("base64url");
}

export function repairOf(
  { provider, event_id }: FailureKey,
  text: string,
): Update {
  const set = { payload: text.replaceAll("\r\n", "\n") };
  return { update: "failed_events", set, where: { provider, event_id } };
}

/**
 * Stores a repaired payload as the text that it is, if the receiver would accept
 * it, the event would have an effect, and nobody else has changed it.
 *
 * @returns what is wrong, a line each; or else why a retry would fail now
 */
export async function repair(
  project: Project,
  failure: Failure,
  { text, hash }: Draft,
): Promise<{ faults: readonly string[]; problem?: string }> {
  if (hash !== hashOf(failure.payload)) return { faults: [CHANGED] };
  const read = readRepair(text, failure, await project.settings());
  if (Array.isArray(read)) return { faults: read };
  const event = { provider: failure.provider, ...read };
  const { outcome, error_code, error } = await project.tryEvent(event);
  const { code, message } = databaseError(error_code ?? "", error ?? "");
  if (outcome === "erased" || outcome === "duplicate") {
    return { faults: [NO_EFFECT[outcome]] };
  }
  if (outcome === "failed" && code === "event_invalid") {
    return { faults: [message] };
  }
  const changed = await project.update(repairOf(failure, text), {
    // The API takes this column from the body, whatever else that holds.
    more: { version: `eq.${failure.version}`, columns: "payload" },
    body: `{"payload":${text}}`,
  });
  if (changed !== 1) {
    return {
      faults: [
        "Nothing was changed: the failure changed at the same moment, or is gone. Save again: the console compares what is there now.",
      ],
    };
  }
  return outcome === "failed"
    ? { faults: [], problem: `A retry would fail now: ${code}: ${message}` }
    : { faults: [] };
}

/**
 * Reads a repaired payload as the receiver does. Returns the event, or what is
 * wrong, a line per field: it must have an effect, differ from what is stored, and
 * still be about the same event.
 */
function readRepair(
  json: string,
  { provider, event_id, payload }: Failure,
  settings: Awaited<ReturnType<Project["settings"]>>,
): EventToApply | string[] {
  const format = FORMATS[settings?.formats?.[provider] ?? "stripe"];
  const { handledTypes, handledTypesFault: fault, notify, ...rest } =
    settings ?? {};
  try {
    JSON.parse(json);
    const parsed = parseEvent(json, {
      ...rest,
      format,
      id: format.idOf && event_id,
      nowSeconds: Date.now() / 1000,
      toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
      handledTypes: { types: new Set(handledTypes), ...(fault && { fault }) },
      notify: new Set(notify),
    });
    if (!parsed.handled) {
      if (parsed.reason === "not_handled" && settings === undefined) {
        return [
          `type: the worker does not answer, and only it knows whether HANDLE_EVENT_TYPES or NOTIFY needs ${parsed.type}. Check it with: ${
            asTyped("doctor")
          }`,
        ];
      }
      const why = parsed.reason === "not_handled"
        ? "has no effect here"
        : "is a thin event without content";
      return [
        `type: ${parsed.type} ${why}, so a retry would ignore the event. If it is not needed, resolve it instead.`,
      ];
    }
    // An event without a usable ID is stored under the hash of its body.
    const isSame = event_id.startsWith("sha256:") ||
      event_id === parsed.event.event_id;
    if (!isSame) {
      return [
        `id: must be ${event_id}. With another one, a retry would apply that event instead.`,
      ];
    }
    const isChanged = payload === null ||
      prettyJson(json) !== prettyJson(payload);
    return isChanged ? parsed.event : [UNCHANGED];
  } catch (error) {
    // In the words of the JSON parser, which say where.
    if (error instanceof SyntaxError) {
      return [`This is not JSON: ${error.message}`];
    }
    if (!(error instanceof DeliveryError)) throw error;
    return error.message.split("; ");
  }
}
