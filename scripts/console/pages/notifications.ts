import { type Html, html } from "../html.ts";
import { link } from "../links.ts";
import { GIVEN_UP, type Notification } from "../records.ts";
import { resendSql } from "../sql.ts";
import { timeElement } from "../time.ts";
import { visible } from "../visible.ts";
import { cardTable } from "./card_table.ts";
import { linked, statement, value } from "./parts.ts";

/** What the list can be narrowed to, by the value in the URL. */
const CHOICES = {
  "": "not sent",
  pending: "pending",
  dead: "dead",
  undeliverable: "undeliverable",
} as const;

/** What to do about each state, as the runbook says. */
const ADVICE: Readonly<Record<string, string>> = {
  pending:
    "Pending ones are tried again when they are due. If one stays without attempts, the worker is not woken, or no channel is configured.",
  dead:
    "Dead ones were given up, for the reason in their error. Fix the receiver, then send them again.",
  undeliverable:
    "For undeliverable ones, billing.account_email has no address. Add one, then send them again.",
};

/** The notifications that are not sent, the oldest first. */
export function notificationsPage(
  { notifications, count, chosen, givenUp, csrf }: {
    notifications: readonly Notification[];
    count: number;
    chosen: string;
    /** How many can be sent again. */
    givenUp: number;
    csrf: string;
  },
): Html {
  return html`
    <h1>Notifications</h1>
    <nav class="tabs" aria-label="States">${Object.entries(CHOICES).map((
      [choice, name],
    ) =>
      html`
        <a href="${link("/notifications", {
          status: choice || undefined,
        })}" ${choice === chosen
          ? html`
            aria-current="true"
          `
          : ""}>${name}</a>
      `
    )}</nav>
    <p>${count === 1
      ? "1 notification."
      : `${
        count.toLocaleString("en")
      } notifications.`} ${count > notifications.length
      ? `The oldest ${notifications.length} are shown. `
      : ""}${ADVICE[chosen] ?? ""}</p>
    ${givenUp === 0 ? "" : html`
      <form class="action" action="/notifications/send" method="post">
        <input type="hidden" name="csrf" value="${csrf}">
        <h2>Send all again that were given up</h2>
        <p>${givenUp.toLocaleString("en")} are dead or undeliverable.</p>
        ${statement(resendSql())}
        <button>Send ${givenUp.toLocaleString("en")} again</button>
      </form>
    `}
    ${notificationTable(notifications, csrf)}
  `;
}

/** A table of notifications; with a token, those given up can be sent again. */
export function notificationTable(
  notifications: readonly Notification[],
  csrf?: string,
): Html {
  if (notifications.length === 0) {
    return html`<p class="empty">There is none. A failed payment
      (<code>invoice.payment_failed</code>) makes one.</p>`;
  }
  return cardTable(notifications, {
    columns: {
      To: (row) => linked(row.account_id, (q) => link("/search", { q })),
      Subscription: (row) =>
        linked(row.subscription_id, (id) => link("/subscription", { id })),
      Status: (row) =>
        html`
          ${statusBadge(row.status)} <span
            class="muted nowrap">${row.attempts} attempts</span>${csrf ===
                undefined
              ? ""
              : sendAgainForm(row, csrf)}
        `,
      "Last error": (row) => value(row.last_error),
      Made: (row) => timeElement(row.created_at),
      "Next attempt": (row) =>
        timeElement(
          row.status === "pending" ? row.next_attempt_at : row.sent_at,
        ),
    },
  });
}

function statusBadge(status: string): Html {
  const kind = status === "sent"
    ? "good"
    : status === "pending"
    ? "wait"
    : "bad";
  return html`<span class="badge ${kind}">${visible(status)}</span>`;
}

function sendAgainForm({ id, status }: Notification, csrf: string): Html {
  if (!GIVEN_UP.some((givenUp) => givenUp === status)) return html``;
  return html`
    <form action="/notifications/send" method="post">
      <input type="hidden" name="csrf" value="${csrf}">
      <input type="hidden" name="id" value="${id}">
      ${statement(resendSql(id), "SQL")}
      <button>Send again</button>
    </form>
  `;
}
