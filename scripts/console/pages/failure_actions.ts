import type { Failure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { failureLink } from "../links.ts";
import { type FailureKey, reopenSql, resolveSql, retrySql } from "../sql.ts";
import { statement } from "./parts.ts";

/** What can be done about a failure, each with the SQL that it runs. */
export function failureActions(failure: Failure, csrf: string): Html {
  const { provider, event_id, resolved_at } = failure;
  const key = { provider, eventId: event_id };
  return resolved_at === null
    ? openActions(failure, { key, csrf })
    : resolvedActions(failure, { key, csrf });
}

interface ActionOptions {
  readonly key: FailureKey;
  readonly csrf: string;
}

function openActions(
  { payload }: Failure,
  { key, csrf }: ActionOptions,
): Html {
  const retryAndRepair = html`
    <div class="action">
      <h3>Repair</h3>
      <p>Edit the payload. It is checked as the receiver checks it, before it is
      saved.</p>
      <p><a class="button" href="${failureLink(
        key,
        "/failure/repair",
      )}">Repair…</a></p>
    </div>
    ${actionForm(
      "/failure/retry",
      { key, csrf },
      html`
        <h3>Retry</h3>
        <p>The worker tries the event again, with the payload below.</p>
        ${statement(retrySql(key))}
        <button class="main">Retry</button>
      `,
    )}
  `;
  return html`
    ${payload === null
      ? html`<p>The payload was deleted, so it cannot be retried. Have the provider
      send the event again.</p>`
      : retryAndRepair}
    ${actionForm(
      "/failure/resolve",
      { key, csrf },
      html`
        <h3>Resolve by hand</h3>
        <p>For an event that need not be applied. It opens again if it fails
        again.</p>
        <p class="field"><label for="reason">Reason</label>
        <input id="reason" name="reason" required maxlength="1000" autocomplete="off"></p>
        <p class="field"><label for="who">Your name</label>
        <input id="who" name="who" required maxlength="200" autocomplete="name"></p>
        ${statement(
          resolveSql(key, { reason: "<reason>", who: "<your name>" }),
        )}
        <button>Resolve</button>
      `,
    )}
  `;
}

function resolvedActions(
  { resolution }: Failure,
  { key, csrf }: ActionOptions,
): Html {
  if (resolution !== "by hand") {
    return html`<p>Nothing is left to do.</p>`;
  }
  return actionForm(
    "/failure/reopen",
    { key, csrf },
    html`
      <h3>Open again</h3>
      <p>If it was resolved by mistake.</p>
      ${statement(reopenSql(key))}
      <button>Open again</button>
    `,
  );
}

function actionForm(
  path: string,
  { key, csrf }: ActionOptions,
  content: Html,
): Html {
  return html`
    <form class="action" action="${path}" method="post">
      <input type="hidden" name="csrf" value="${csrf}">
      <input type="hidden" name="provider" value="${key.provider}">
      <input type="hidden" name="event" value="${key.eventId}">
      ${content}
    </form>
  `;
}
