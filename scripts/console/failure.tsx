/** @jsxImportSource hono/jsx */
/** The page of one failure: its cause, its payload, and the actions on it. */
import type { Child } from "hono/jsx";
import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import {
  at,
  isRecord,
} from "../../supabase/functions/_shared/billing/events/fields.ts";
import type { Format } from "../../supabase/functions/_shared/billing/events/format.ts";
import {
  type Failure,
  failureLink,
  readFailure,
  stateOf,
} from "./failures.tsx";
import {
  type Draft,
  parseExactly,
  payloadSection,
  versionOf,
} from "./payload.tsx";
import type { Project } from "./project.ts";
import { formatOf, repair } from "./repair.ts";
import * as ui from "./ui.tsx";

const FACTS =
  "type,provider,subscription_id,account_id,occurred_at,first_failed_at,last_failed_at,attempts,next_retry_at,retry_requested_at,resolved_at,resolution,resolved_by,resolution_note";

const RETRY_NEXT =
  "retry the event: until then, deliveries of it are refused, so that the old payload is not applied.";

export function addFailure(console: ui.Console): void {
  const { app, project, show, showResult } = console;

  app.get("/failure", async (c) => {
    const failure = await readFailure(project, c.req.query());
    if (failure === undefined) return c.notFound();
    const format = await formatLackingAccount(project, failure);
    return show(c, failure.event_id, failurePage(failure, { format }));
  });

  app.post("/failure/repair", async (c) => {
    const { account, version = "", ...fields } = await ui.readForm(c);
    const failure = await readFailure(project, fields);
    if (failure === undefined) return c.notFound();

    const format = await formatLackingAccount(project, failure);
    const completed = account && format
      ? withAccount(failure.payload, account.trim(), format)
      : undefined;
    const draft = { text: completed ?? fields["text"] ?? "", version };

    try {
      const problem = await repair(project, failure, draft);
      const notice = problem
        ? { problem: `Saved. ${problem}\nFix that first, then ${RETRY_NEXT}` }
        : { done: `Saved. Now ${RETRY_NEXT}` };
      return showResult(c, failureLink(failure), notice);
    } catch (error) {
      const faults = ui.faultsOf(error);
      const page = failurePage(failure, {
        format,
        draft: { ...draft, faults },
      });
      return show(c, failure.event_id, page, 422);
    }
  });

  app.post("/failure/:action{retry|resolve|reopen}", async (c) => {
    const fields = await ui.readForm(c);
    const failure = await readFailure(project, fields);
    if (failure === undefined) return c.notFound();

    const { event_id, provider: of_provider } = failure;
    const { reason, who } = fields;
    const action = c.req.param("action");
    const notice = await ui.attempt(async () => {
      const args = { event_id, of_provider, reason, who };
      const done = await project.call(`${action}_failed_event`, args);
      return action === "retry"
        ? await retryNow(project, failure, done)
        : { done };
    });
    return showResult(c, failureLink(failure), notice);
  });
}

async function retryNow(
  project: Project,
  { provider, event_id: event }: Failure,
  answer: string,
): Promise<ui.Notice> {
  const waking = await project.wakeWorker("retries");

  const failure = await readFailure(project, { provider, event });
  if (!failure) return { done: "Deleted, because its account was erased." };
  if (failure.resolved_at) return { done: `Retried: ${failure.resolution}.` };
  if (failure.retry_requested_at === null) {
    return { problem: `Retried, and it failed again: ${failure.error_code}.` };
  }

  const done = ui.withoutAdvice(answer);
  if (waking !== "") return { done, problem: waking };
  return { done: `${done}\nThe worker retries it in its next run.` };
}

function failurePage(
  failure: Failure,
  { format, draft }: { format: Format | undefined; draft?: Draft },
) {
  const guide = ERRORS[failure.error_code as ErrorCode];
  return (
    <>
      <h1>{ui.visible(failure.event_id)}</h1>
      <p>
        {stateOf(failure)}
        {failure.original !== null && <strong>, repaired</strong>}
      </p>

      <div class="grid">
        <div>
          <h2>Why it failed</h2>
          <p>
            <strong>{ui.visible(failure.error_code)}</strong>: {guide?.means}
          </p>
          <p>{ui.visibleLines(failure.error)}</p>
          {failure.resolved_at === null && (
            <blockquote>{guide?.todo}</blockquote>
          )}
          {ui.facts(failure, FACTS)}
        </div>
        <aside>{actionCards(failure, format)}</aside>
      </div>

      <h2>Payload</h2>
      {payloadSection(failure, draft)}
    </>
  );
}

/** Returns the format of an event that lacks only an account. */
async function formatLackingAccount(
  project: Project,
  failure: Failure,
): Promise<Format | undefined> {
  const lacksAccount = failure.error_code === "account_unknown" &&
    failure.resolved_at === null &&
    failure.payload_encoding === "json" &&
    failure.original === null;
  if (!lacksAccount) return undefined;

  const format = formatOf(failure, await project.settings());
  const hasPlace = withAccount(failure.payload, "", format) !== undefined;
  return hasPlace ? format : undefined;
}

function actionCards(failure: Failure, format: Format | undefined) {
  if (failure.resolved_at !== null) {
    return /^(by hand|ignored)$/.test(failure.resolution ?? "")
      ? actionCard(
        failure,
        "reopen",
        "The event was not applied. If it should be, open it again and retry it.",
        <button>Open again</button>,
      )
      : "Nothing is left to do.";
  }

  return [
    format && accountCard(failure, format),
    failure.payload === null
      ? "The payload was deleted, so it cannot be retried. Have the provider send the event again."
      : actionCard(
        failure,
        "retry",
        "The worker tries the event again, with the payload shown here.",
        <button>Retry</button>,
      ),
    actionCard(
      failure,
      "resolve",
      "Resolve the failure if the event need not be applied. It opens again if the event fails again.",
      [
        ui.reasonFields(),
        <button class="outline">Resolve by hand</button>,
      ],
    ),
  ];
}

function actionCard(
  failure: Failure,
  name: string,
  text: string,
  content: Child,
) {
  const fields = { provider: failure.provider, event: failure.event_id };
  return (
    <article>
      <p>{text}</p>
      {ui.form(`/failure/${name}`, fields, content)}
    </article>
  );
}

function accountCard(failure: Failure, { names }: Format) {
  return (
    <article>
      <p>
        The event names no account. Set it here, in the payload's{" "}
        <code>{names.account_ids[0]}</code>, and retry the event afterwards. Set
        it at the provider too.
      </p>
      {ui.form("/failure/repair", versionOf(failure), [
        ui.field("Account ID", {
          name: "account",
          required: true,
          maxlength: 255,
        }),
        <button>Save the account</button>,
      ])}
    </article>
  );
}

/** Returns undefined if the payload has another shape or is nested too deeply. */
function withAccount(
  json: string | null,
  accountId: string,
  { names: { account_ids, data } }: Format,
): string | undefined {
  try {
    const event = parseExactly(json ?? "");
    if (!isRecord(at(event, data))) return undefined;

    const path = account_ids[0].split(".");
    const name = path.pop()!;
    let holder = event;
    for (const part of path) {
      if (!isRecord(holder[part])) holder[part] = {};
      holder = holder[part];
    }
    holder[name] = accountId;
    return JSON.stringify(event);
  } catch {
    return undefined;
  }
}
