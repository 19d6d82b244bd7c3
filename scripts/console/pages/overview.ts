import { asTyped } from "../../common/how_started.ts";
import { type Html, html } from "../html.ts";
import { link } from "../links.ts";
import type { Overview } from "../overview.ts";
import type { Advice } from "../runbook.ts";
import { visible } from "../visible.ts";
import { ageElement, timeElement } from "../time.ts";
import { cardTable } from "./card_table.ts";
import { chartFigure } from "./hours.ts";
import { markdownLine } from "./markdown.ts";

/** The first page: is it well, and if not, where to look. */
export function overviewPage(
  { health, codes }: Overview,
  runbook: ReadonlyMap<string, Advice>,
): Html {
  const open = health.open_failures ?? 0;
  const givenUp = health.notifications_given_up ?? 0;
  const pending = health.notifications_pending ?? 0;
  return html`<h1>${headline(open, givenUp)}</h1>
<ul class="tiles">
${
    tile("Open failures", open, {
      href: "/failures",
      isBad: open > 0,
      note: open > 0
        ? html`the oldest: ${ageElement(health.oldest_open_failure)}`
        : html`every event that arrived was handled`,
    })
  }
${
    tile("Retries requested", health.retries_requested ?? 0, {
      href: "/failures",
      note: html`the worker takes them at its next run`,
    })
  }
${
    tile("Notifications that wait", pending, {
      href: link("/notifications", { status: "pending" }),
      note: pending > 0
        ? html`the oldest: ${ageElement(health.oldest_pending_notification)}`
        : html`nothing is due`,
    })
  }
${
    tile("Notifications given up", givenUp, {
      href: "/notifications",
      isBad: givenUp > 0,
      note: givenUp > 0 ? html`they can be sent again` : html`none`,
    })
  }
</ul>
<section aria-labelledby="codes">
<h2 id="codes">Open failures by error</h2>
${codeTable(codes, runbook)}
</section>
<section aria-labelledby="hours">
<h2 id="hours">Events per hour, last three days</h2>
${
    health.last_event_at === null
      ? html`
        <p
          class="empty">No event was applied yet. Send one: <code>${asTyped(
            "trigger customer.subscription.created",
          )}</code></p>
      `
      : html`<p class="muted">Last event applied: ${
        timeElement(health.last_event_at)
      }</p>`
  }
${chartFigure()}
<p class="muted"><a href="/hours">The chart as a table</a>. The ledger has about ${
    (health.ledger_rows_estimate ?? 0).toLocaleString("en")
  } rows.</p>
</section>`;
}

function headline(open: number, givenUp: number): string {
  const events = open === 1
    ? "1 event has failed"
    : `${open.toLocaleString("en")} events have failed`;
  const notices = givenUp === 1
    ? "1 notification was given up"
    : `${givenUp.toLocaleString("en")} notifications were given up`;
  if (open > 0 && givenUp > 0) return `${events}, and ${notices}`;
  if (open > 0) return events;
  return givenUp > 0 ? notices : "Nothing is failing";
}

function tile(
  name: string,
  count: number,
  { href, note, isBad = false }: { href: string; note: Html; isBad?: boolean },
): Html {
  return html`
    <li
      class="tile${isBad
        ? " bad"
        : ""}"><a href="${href}"><span class="tile-name">${name}</span> <strong>${count
        .toLocaleString(
          "en",
        )}</strong></a><span class="muted">${note}</span></li>
  `;
}

function codeTable(
  codes: Overview["codes"],
  runbook: ReadonlyMap<string, Advice>,
): Html {
  if (codes.length === 0) return html`<p class="empty">No failure is open.</p>`;
  return cardTable(codes, {
    columns: {
      Error: ({ code }) =>
        html`<a href="${link("/failures", { code })}"><code>${
          visible(
            code,
          )
        }</code></a>`,
      Means: ({ code }) => markdownLine(runbook.get(code)?.means ?? ""),
      Open: ({ open }) => open,
    },
  });
}
