/** @jsxImportSource hono/jsx */
/** The list of notifications that are not sent, and the actions that send them again. */
import type { Child } from "hono/jsx";
import type { Row } from "../common/project_api.ts";
import * as ui from "./ui.tsx";

const GIVEN_UP = ["dead", "undeliverable"];
export const NOT_SENT = ["pending", ...GIVEN_UP];

/** "now" is by Postgres's clock: this machine's may be ahead. */
const DUE = '{"status":"pending","attempts":0,"next_attempt_at":"now"}';

type Notification = Row<"billing_notifications">;

export function addNotifications(console: ui.Console): void {
  const { app, project, show, showResult } = console;

  app.get("/notifications", async (c) => {
    const count = (states: readonly string[], limit: number) =>
      project.count("billing_notifications", {
        status: `in.(${states})`,
        order: "created_at,id",
        limit: `${limit}`,
      });
    const [list, givenUp] = await Promise.all([
      count(NOT_SENT, ui.PAGE_SIZE),
      count(GIVEN_UP, 1),
    ]);

    const content = (
      <>
        <h1>Notifications</h1>
        <p>
          {ui.counted(list.count, "notification")} not sent.{" "}
          {list.count > list.data.length &&
            `The oldest ${list.data.length} are shown. `}
          Pending ones are tried again when they are due. To find a notification
          that was sent, search for its subscription or event.
        </p>
        {givenUp.count > 0 && sendAllCard(givenUp.count)}
        {list.count > 0 && notificationTable(list.data)}
      </>
    );
    return show(c, "Notifications", content);
  });

  app.post("/notifications/send", async (c) => {
    const { id } = await ui.readForm(c);
    const which = { status: `in.(${GIVEN_UP})`, ...(id && { id: `eq.${id}` }) };
    const count = await project.update("billing_notifications", which, DUE);
    const done = `${ui.counted(count, "notification")} made due again.`;
    const problem = await project.wakeWorker("notifications");
    return showResult(c, "/notifications", { done, problem });
  });
}

function sendAllCard(givenUp: number) {
  const all = givenUp.toLocaleString("en");
  const send = <button>Send {all} again</button>;
  return (
    <article>
      <p>
        {all}{" "}
        were given up: they are dead, or undeliverable because
        billing.account_email has no address. First fix what their errors name.
      </p>
      {ui.form("/notifications/send", {}, send)}
    </article>
  );
}

export function notificationTable(
  notifications: readonly Notification[],
): Child {
  return ui.table("Notifications", notifications, {
    To: (row) => ui.linked(row.account_id),
    Subscription: (row) => ui.linked(row.subscription_id),
    Kind: (row) => ui.value(row.kind),
    Status: statusCell,
    "Last error, or why withdrawn": (row) => ui.value(row.last_error),
    Created: (row) => ui.time(row.created_at),
    "Sent or due": (row) =>
      ui.time(row.status === "pending" ? row.next_attempt_at : row.sent_at),
  });
}

function statusCell({ id, status, attempts }: Notification) {
  const isGivenUp = GIVEN_UP.includes(status);
  const button = <button class="outline">Send again</button>;
  return [
    <strong class={isGivenUp ? "bad" : ""}>{ui.visible(status)}</strong>,
    <small>{ui.counted(attempts, "attempt")}</small>,
    isGivenUp && ui.form("/notifications/send", { id }, button),
  ];
}
