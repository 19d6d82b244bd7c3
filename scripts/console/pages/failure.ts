import type { Failure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { failureLink, link } from "../links.ts";
import type { Advice } from "../runbook.ts";
import { type FailureKey, reopenSql, resolveSql, retrySql } from "../sql.ts";
import { timeElement, unixTimeElement } from "../time.ts";
import { visible, visibleLines } from "../visible.ts";
import { markdownLine } from "./markdown.ts";
import { facts, linked, stateBadge, statement, value } from "./parts.ts";
import { payloadSection } from "./payload.ts";

/** One failure: why it failed, what to do about it, and its payload. */
export function failurePage(
  failure: Failure,
  { advice, csrf }: { advice: Advice | undefined; csrf: string },
): Html {
  const { provider, event_id, resolved_at } = failure;
  const key = { provider, eventId: event_id };
  return html`
    <p class="above"><a href="/failures">Failures</a></p>
    <h1 class="id">${visible(event_id)}</h1>
    <p>${stateBadge(failure)} ${failure.original === null
      ? ""
      : html`<span class="badge wait">repaired</span>`}</p>
    <div class="columns">
      <section aria-labelledby="why" class="why">
        <h2 id="why">Why it failed</h2>
        <p class="error-code"><code>${visible(failure.error_code)}</code></p>
        <p class="error-text">${visibleLines(failure.error)}</p>
        ${advice === undefined ? "" : html`
          <div class="advice">
            <h3>What the runbook says (docs/runbook.md)</h3>
            <p>${markdownLine(advice.means)}</p>
            ${advice.todo === ""
              ? ""
              : html`<p><strong>Do:</strong> ${markdownLine(advice.todo)}</p>`}
          </div>
        `}
        ${factsOf(failure)}
      </section>
      <section aria-labelledby="act" class="actions">
        <h2 id="act">Act</h2>
        ${resolved_at === null
          ? openActions(failure, { key, csrf })
          : resolvedActions(failure, { key, csrf })}
      </section>
      <section aria-labelledby="payload" class="evidence">
        <h2 id="payload">Payload</h2>
        ${payloadSection(failure)}
      </section>
    </div>
  `;
}

function factsOf(failure: Failure): Html {
  const { subscription_id, account_id } = failure;
  return facts([
    ["Type", value(failure.type)],
    ["Provider", value(failure.provider)],
    [
      "Subscription",
      linked(subscription_id, (id) => link("/subscription", { id })),
    ],
    [
      "Account",
      linked(account_id, (q) => link("/search", { q })),
    ],
    ["Occurred", unixTimeElement(failure.event_created)],
    ["First failed", timeElement(failure.first_failed_at)],
    ["Last failed", timeElement(failure.last_failed_at)],
    ["Attempts", value(failure.attempts)],
    ...(failure.resolved_at === null ? [] : [
      ["Resolved", timeElement(failure.resolved_at)] as const,
      ["How", value(failure.resolution)] as const,
      ["By", value(failure.resolved_by)] as const,
      ["Reason", value(failure.resolution_note)] as const,
    ]),
    ...(failure.retry_requested_at === null ? [] : [
      ["Retry requested", timeElement(failure.retry_requested_at)] as const,
      ["Tried again after", timeElement(failure.retry_leased_until)] as const,
    ]),
  ]);
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
