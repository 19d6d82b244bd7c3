/** @jsxImportSource hono/jsx */
/**
 * The repair: the page on which a payload is edited, and what checks and stores
 * it.
 *
 * @module
 */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { createHash } from "node:crypto";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { type Failure, readFailure, readKey } from "./failure.tsx";
import { type FailureKey, failureLink } from "./failures.tsx";
import { type Console, readForm } from "./layout.tsx";
import { type Project, ProjectError } from "./project.ts";
import { prettyJson, sqlString, visible, visibleJson } from "./text.tsx";

/** In characters: a browser's text field gets slow with more. */
const LONGEST_DRAFT = 2 * 1024 * 1024;
/** A longer payload is edited as it is stored, and its statement not shown. */
const LONGEST_PRETTY = 64 * 1024;

/** What is edited. */
interface Draft {
  readonly key: FailureKey;
  readonly text: string;
  /** Of the payload that the editing began with. */
  readonly hash: string;
}

/** Adds the page on which a payload is edited. */
export function addRepair(console: Console): void {
  const { app, project, show, showResult, clock, form } = console;

  const showDraft = (c: Context, draft: Draft, why: Child, status: 200 | 422) =>
    show(c, "Repair", repairPage(draft, why, form), status);

  app.get("/failure/repair", async (c) => {
    const key = readKey(c.req.query());
    const failure = await readFailure(project, key);
    if (failure === undefined) return c.notFound();
    const { payload, payload_encoding, error_code, error } = failure;
    if (payload === null || failure.resolved_at !== null) {
      return c.redirect(failureLink(key), 303);
    }
    if (payload.length > LONGEST_DRAFT) {
      throw new ProjectError(
        "This payload is too long to edit in a browser.",
        "Repair it in the SQL editor: see docs/runbook.md.",
      );
    }
    const text = draftText(payload, payload_encoding);
    const code = <strong>{visible(error_code)}</strong>;
    const why = <p>It failed with {code}: {visible(error)}</p>;
    return showDraft(c, { key, text, hash: hashOf(payload) }, why, 200);
  });

  app.post("/failure/repair", async (c) => {
    const { text = "", hash = "", ...fields } = await readForm(c);
    const key = readKey(fields);
    const draft = { key, text, hash };
    const refuse = (faults: readonly string[], heading = "Not saved") =>
      showDraft(c, draft, faultList(heading, faults), 422);
    try {
      const failure = await readFailure(project, key);
      if (failure === undefined) return c.notFound();
      if (hash !== hashOf(failure.payload ?? "")) {
        return refuse([
          "Somebody has changed the payload since you opened this page. Copy your text, and begin again with Cancel.",
        ]);
      }
      const faults = faultsOf(text, key, clock() / 1000);
      if (faults.length > 0) return refuse(faults);
      await repairPayload(project, failure, text);
      const next = failure.retry_requested_at === null
        ? "Now retry the event: until then, deliveries of it are refused, so that the old payload is not applied."
        : "A retry is requested already: the worker applies this payload at its next run.";
      const notice = { kind: "good", text: `Saved. ${next}` } as const;
      return showResult(c, failureLink(key), notice);
    } catch (error) {
      if (!(error instanceof ProjectError)) throw error;
      const fault = `${error.message} ${error.hint}`.trim();
      return error.isUnknown
        ? refuse([fault, UNKNOWN], "Perhaps not saved")
        : refuse([fault]);
    }
  });
}

const UNKNOWN =
  "It is not known whether the repair was saved. Open the failure in another tab to see; this page keeps your text.";

/** Returns what to edit: the payload, or the text that a JSON string holds. */
function draftText(payload: string, encoding: string): string {
  if (encoding === "text") return visibleJson(JSON.parse(payload));
  const { text, isCut } = prettyJson(payload, LONGEST_PRETTY);
  return visibleJson(isCut ? payload : text);
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

/**
 * Returns what is wrong with a repaired payload, one line per field; none if the
 * receiver accepts it, it has an effect, and it is still about the same event.
 *
 * @param nowSeconds Unix time.
 */
function faultsOf(
  json: string,
  { event_id }: FailureKey,
  nowSeconds: number,
): readonly string[] {
  try {
    const toleranceSeconds = DEFAULT_TOLERANCE_SECONDS;
    const parsed = parseEvent(json, { nowSeconds, toleranceSeconds });
    if (!parsed.handled) {
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
    return isSame ? [] : [
      `id: must be ${event_id}. With another one, a retry would apply that event instead.`,
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
    return "The payload is empty.";
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
}

/**
 * Stores a repaired payload, as the text that it is. A failure that has changed
 * since it was read is left alone.
 *
 * @param json A single JSON value; the caller has parsed it.
 */
export async function repairPayload(
  project: Project,
  { provider, event_id, version }: Failure,
  json: string,
): Promise<void> {
  const changed = await project.update("billing_failed_events", {
    provider: `eq.${provider}`,
    event_id: `eq.${event_id}`,
    version: `eq.${version}`,
    // The API takes this column from the body, whatever else it holds.
    columns: "payload",
    select: "event_id",
  }, `{"payload":${json}}`);
  if (changed === 1) return;
  throw new ProjectError(
    "Nothing was changed: the failure changed at the same moment, or is gone.",
    "Save again: the console compares what is there now.",
  );
}

function repairSql({ provider, event_id }: FailureKey, text: string): string {
  return `update billing.failed_events
set payload = ${sqlString(text)}
where provider = ${sqlString(provider)} and event_id = ${sqlString(event_id)};`;
}

function faultList(heading: string, faults: readonly string[]): Child {
  return (
    <article class="bad" role="alert">
      <h2>{heading}</h2>
      <ul>{faults.map((fault) => <li>{visible(fault)}</li>)}</ul>
    </article>
  );
}

function repairPage(
  { key, text, hash }: Draft,
  why: Child,
  form: Console["form"],
): Child {
  const { provider, event_id: event } = key;
  const sql = text.length > LONGEST_PRETTY
    ? undefined
    : repairSql(key, text.replaceAll("\r\n", "\n"));
  const area = { rows: 24, wrap: "off", spellcheck: false, required: true };
  const editor = (
    <>
      <label>
        Payload, as JSON
        <textarea name="text" autocomplete="off" {...area}>{text}</textarea>
      </label>
      <p>
        Saving changes nothing else: retry the event afterwards. What was
        received is kept.
      </p>
      <button>Check and save</button> <a href={failureLink(key)}>Cancel</a>
    </>
  );
  return (
    <>
      <p>
        <a href="/failures">Failures</a> ›{" "}
        <a href={failureLink(key)}>{visible(event)}</a>
      </p>
      <h1>Repair the payload</h1>
      {why}
      {form("/failure/repair", { provider, event, hash }, editor, sql)}
    </>
  );
}
