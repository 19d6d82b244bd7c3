import type { Failure } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { link } from "../links.ts";
import type { Advice } from "../runbook.ts";
import { timeElement } from "../time.ts";
import { visible, visibleLines } from "../visible.ts";
import { failureActions } from "./failure_actions.ts";
import { markdownLine } from "./markdown.ts";
import { facts, linked, stateBadge, value } from "./parts.ts";
import { payloadSection } from "./payload.ts";

/** One failure: why it failed, what to do about it, and its payload. */
export function failurePage(
  failure: Failure,
  { advice, csrf }: { advice: Advice | undefined; csrf: string },
): Html {
  return html`
    <p class="above"><a href="/failures">Failures</a></p>
    <h1 class="id">${visible(failure.event_id)}</h1>
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
        ${failureActions(failure, csrf)}
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
    ["Occurred", timeElement(failure.occurred_at)],
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
    ]),
  ]);
}
