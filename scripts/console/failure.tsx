/** @jsxImportSource hono/jsx */
/**
 * One failure: why it failed, its payload, and what can be done about it.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import { type FailureKey, failureLink, LISTED, stateOf } from "./failures.tsx";
import {
  type Console,
  facts,
  type Fields,
  firstSentences,
  linked,
  type Notice,
  readForm,
  time,
  value,
} from "./layout.tsx";
import { payloadSection } from "./payload.tsx";
import { type Project, ProjectError, type Row } from "./project.ts";
import { markdownLine, RUNBOOK } from "./runbook.tsx";
import { sqlString, visible, visibleLines } from "./text.tsx";

/** A failure with its payloads as JSON text. */
export interface Failure extends Row<"billing_failed_events"> {
  readonly payload: string | null;
  /** As it was received, if it was repaired. */
  readonly original: string | null;
}

/** Returns a failure; undefined if there is none of that key. */
export async function readFailure(
  project: Project,
  { provider, event_id }: FailureKey,
): Promise<Failure | undefined> {
  const [row] = await project.read("billing_failed_events", {
    // As text, since JSON.parse rounds large numbers.
    select:
      `${LISTED},account_id,payload_encoding,resolution_note,resolved_by,occurred_at,retry_lease_id,version,payload:payload::text,original:original_payload::text`,
    provider: `eq.${provider}`,
    event_id: `eq.${event_id}`,
  });
  return row as Failure | undefined;
}

/** Reads which failure a form or a URL is about. */
export function readKey({ provider = "", event = "" }: Fields): FailureKey {
  return { provider, event_id: event };
}

const by = ({ provider }: FailureKey) =>
  `of_provider => ${sqlString(provider)}`;

function retrySql(key: FailureKey): string {
  const id = sqlString(key.event_id);
  return `select billing.retry_failed_event(${id}, ${by(key)});`;
}

function resolveSql(key: FailureKey): string {
  const given = [key.event_id, "<reason>", "<your name>"].map(sqlString);
  return `select billing.resolve_failed_event(${given.join(", ")}, ${
    by(key)
  });`;
}

function reopenSql({ provider, event_id }: FailureKey): string {
  return `update billing.failed_events set
  resolved_at = null, resolution = null, resolution_note = null, resolved_by = null
where provider = ${sqlString(provider)} and event_id = ${sqlString(event_id)}
  and resolution = 'by hand';`;
}

/** Adds the page of one failure, and the actions on it but for the repair. */
export function addFailure(console: Console): void {
  const { app, project, show, showResult } = console;

  app.get("/failure", async (c) => {
    const failure = await readFailure(project, readKey(c.req.query()));
    if (failure === undefined) return c.notFound();
    return show(c, failure.event_id, failurePage(failure, console));
  });

  app.get("/failure/payload", async (c) => {
    const failure = await readFailure(project, readKey(c.req.query()));
    const which = c.req.query("which") === "original" ? "original" : "payload";
    const json = failure?.[which] ?? null;
    if (json === null) return c.notFound();
    return c.body(json, 200, {
      "content-type": "text/plain; charset=utf-8",
      "content-disposition": `attachment; filename="${which}.txt"`,
    });
  });

  /** Adds an action, after which the failure is shown with what came of it. */
  function on(
    path: string,
    action: (key: FailureKey, form: Fields) => Promise<Notice>,
  ): void {
    app.post(path, async (c) => {
      const form = await readForm(c);
      const key = readKey(form);
      const notice = await action(key, form).catch((error) => {
        if (!(error instanceof ProjectError)) throw error;
        return bad(`${error.message}\n${error.hint}`);
      });
      return showResult(c, failureLink(key), notice);
    });
  }

  on("/failure/retry", async (key) => {
    const answer = await project.call("billing_retry_failed_event", {
      event_id: key.event_id,
      of_provider: key.provider,
    });
    if (!answer.startsWith("Retry requested")) return bad(answer);
    const waking = await project.wakeWorker();
    const failure = await readFailure(project, key);
    if (failure?.resolved_at) return good(`Retried: ${failure.resolution}.`);
    if (failure?.retry_requested_at === null) {
      return bad(`Retried, and it failed again: ${failure.error_code}.`);
    }
    const requested = firstSentences(answer);
    if (waking !== "") return bad(`${requested}\n${waking}`);
    return failure?.retry_lease_id
      ? bad(
        `${requested}\nThe worker has claimed it and has no result: most likely another session has locked its record. The worker tries it again at its next run. To find that session: docs/runbook.md, "Locks".`,
      )
      : good(`${requested}\nThe worker takes it at its next run.`);
  });

  on("/failure/resolve", async ({ provider, event_id }, { reason, who }) => {
    const args = { event_id, reason, who, of_provider: provider };
    return good(await project.call("billing_resolve_failed_event", args));
  });

  on("/failure/reopen", async ({ provider, event_id }) => {
    const changed = await project.update("billing_failed_events", {
      provider: `eq.${provider}`,
      event_id: `eq.${event_id}`,
      resolution: "eq.by hand",
      select: "event_id",
    }, {
      resolved_at: null,
      resolution: null,
      resolution_note: null,
      resolved_by: null,
    });
    return changed > 0
      ? good("It is open again.")
      : bad("Nothing was changed: it is not resolved by hand any more.");
  });
}

function good(text: string): Notice {
  return { kind: "good", text };
}

function bad(text: string): Notice {
  return { kind: "bad", text: text.trim() };
}

function failurePage(failure: Failure, console: Console): Child {
  return (
    <>
      <p>
        <a href="/failures">Failures</a>
      </p>
      <h1>{visible(failure.event_id)}</h1>
      <p>
        {stateOf(failure)}
        {failure.original !== null && <strong>, repaired</strong>}
      </p>
      <div class="grid">
        <div>
          {reason(failure)}
          <h2>Payload</h2>
          {payloadSection(failure)}
        </div>
        <aside>{actions(failure, console)}</aside>
      </div>
    </>
  );
}

function reason(failure: Failure): Child {
  const { means = "", todo } = RUNBOOK.get(failure.error_code) ?? {};
  return (
    <>
      <h2>Why it failed</h2>
      <p>
        <strong>{visible(failure.error_code)}</strong>
      </p>
      <p>{visibleLines(failure.error)}</p>
      {means && (
        <blockquote>
          <small>What the runbook says (docs/runbook.md)</small>
          <p>{markdownLine(means)}</p>
          {todo && (
            <p>
              <strong>Do:</strong> {markdownLine(todo)}
            </p>
          )}
        </blockquote>
      )}
      {facts({
        Type: value(failure.type),
        Provider: value(failure.provider),
        Subscription: linked(failure.subscription_id),
        Account: linked(failure.account_id),
        Occurred: time(failure.occurred_at),
        "First failed": time(failure.first_failed_at),
        "Last failed": time(failure.last_failed_at),
        Attempts: failure.attempts,
        ...(failure.resolved_at !== null && {
          Resolved: time(failure.resolved_at),
          How: value(failure.resolution),
          By: value(failure.resolved_by),
          Reason: value(failure.resolution_note),
        }),
        ...(failure.retry_requested_at !== null && {
          "Retry requested": time(failure.retry_requested_at),
        }),
      })}
    </>
  );
}

/** Returns what can be done about a failure, each with the SQL that it runs. */
function actions(failure: Failure, { form }: Console): Child {
  const key = { provider: failure.provider, event: failure.event_id };
  if (failure.resolved_at !== null) {
    if (failure.resolution !== "by hand") return "Nothing is left to do.";
    return card(
      "Open again",
      "If it was resolved by mistake.",
      form(
        "/failure/reopen",
        key,
        <button>Open again</button>,
        reopenSql(failure),
      ),
    );
  }
  const retry = <button>Retry</button>;
  const resolve = (
    <>
      <label>
        Reason
        <input name="reason" required maxlength={1000} autocomplete="off" />
      </label>
      <label>
        Your name
        <input name="who" required maxlength={200} autocomplete="name" />
      </label>
      <button class="outline">Resolve</button>
    </>
  );
  const repairAndRetry = [
    card(
      "Repair",
      "Edit the payload. It is checked as the receiver checks it, before it is saved.",
      <a href={failureLink(failure, "/failure/repair")}>Repair…</a>,
    ),
    card(
      "Retry",
      "The worker tries the event again, with the payload shown here.",
      form("/failure/retry", key, retry, retrySql(failure)),
    ),
  ];
  return [
    failure.payload === null
      ? "The payload was deleted, so it cannot be retried. Have the provider send the event again."
      : repairAndRetry,
    card(
      "Resolve by hand",
      "For an event that need not be applied. It opens again if it fails again.",
      form("/failure/resolve", key, resolve, resolveSql(failure)),
    ),
  ];
}

function card(title: string, text: string, content: Child): Child {
  return (
    <article>
      <h3>{title}</h3>
      <p>{text}</p>
      {content}
    </article>
  );
}
