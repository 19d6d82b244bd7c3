/** @jsxImportSource hono/jsx */
/**
 * The notifications that are not sent, and what sends them again.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import { PAGE_SIZE } from "./failures.tsx";
import {
  type Console,
  counted,
  link,
  linked,
  PROVIDERS,
  readForm,
  table,
  time,
  value,
} from "./layout.tsx";
import type { Project, Row } from "./project.ts";
import { sqlString, visible } from "./text.tsx";

const GIVEN_UP = ["dead", "undeliverable"];

/** What the list can be narrowed to, with what the runbook says about it. */
const STATES: Readonly<Record<string, string>> = {
  "": "",
  pending:
    "Pending ones are tried again when they are due. If one stays without attempts, the worker is not woken, or no channel is configured.",
  dead:
    "Dead ones were given up, for the reason in their error. Fix the receiver, then send them again.",
  undeliverable:
    "For undeliverable ones, billing.account_email has no address. Add one, then send them again.",
};

type Notification = Row<"billing_notifications">;

/** Returns the newest notifications that match. */
export function notificationsWith(
  project: Project,
  column: string,
  id: string,
) {
  return project.read("billing_notifications", {
    [column]: `eq.${id}`,
    // The unique key of event_id begins with the provider.
    ...(column === "event_id" && { provider: PROVIDERS }),
    order: "created_at.desc",
    limit: `${PAGE_SIZE}`,
  });
}

/** Makes notifications due that were given up: one, or all. Returns how many. */
export function resendNotifications(project: Project, id = "") {
  return project.update("billing_notifications", {
    status: `in.(${GIVEN_UP})`,
    ...(id && { id: `eq.${id}` }),
    select: "id",
  }, {
    status: "pending",
    attempts: 0,
    // By Postgres's clock: this machine's may be ahead of it.
    next_attempt_at: "now",
  });
}

function resendSql(id = ""): string {
  return `update billing.notifications
set status = 'pending', attempts = 0, next_attempt_at = now()
where ${
    id && `id = ${sqlString(id)} and `
  }status in ('dead', 'undeliverable');`;
}

/** Adds the list of notifications, and what sends them again. */
export function addNotifications(console: Console): void {
  const { app, project, show, showResult, form } = console;

  app.get("/notifications", async (c) => {
    const asked = c.req.query("status") ?? "";
    const chosen = asked in STATES ? asked : "";
    const states = chosen || ["pending", ...GIVEN_UP];
    const count = (states: string | string[], limit: number) =>
      project.count("billing_notifications", {
        status: `in.(${states})`,
        order: "created_at,id",
        limit: `${limit}`,
      });
    const [list, givenUp] = await Promise.all([
      count(states, PAGE_SIZE),
      count(GIVEN_UP, 1),
    ]);
    const all = givenUp.count.toLocaleString("en");
    const send = <button>Send {all} again</button>;
    const content = (
      <>
        <h1>Notifications</h1>
        <p>
          {Object.keys(STATES).map((status) => [
            <a
              href={link("/notifications", { status })}
              aria-current={status === chosen && "true"}
            >
              {status || "not sent"}
            </a>,
            " ",
          ])}
        </p>
        <p>
          {counted(list.count, "notification")}.{" "}
          {list.count > list.data.length &&
            `The oldest ${list.data.length} are shown. `}
          {STATES[chosen]}
        </p>
        {givenUp.count > 0 && (
          <article>
            <h2>Send all again that were given up</h2>
            <p>{all} are dead or undeliverable.</p>
            {form("/notifications/send", {}, send, resendSql())}
          </article>
        )}
        {notificationTable(list.data, form)}
      </>
    );
    return show(c, "Notifications", content);
  });

  app.post("/notifications/send", async (c) => {
    const { id } = await readForm(c);
    const count = await resendNotifications(project, id);
    const waking = await project.wakeWorker();
    const text = `${count} made due again.\n${waking}`.trim();
    const kind = waking === "" ? "good" : "bad";
    return showResult(c, "/notifications", { kind, text });
  });
}

/** Returns a table; with a form, those given up can be sent again. */
export function notificationTable(
  notifications: readonly Notification[],
  form?: Console["form"],
): Child {
  if (notifications.length === 0) {
    return <p>There is none. A failed payment makes one.</p>;
  }
  const sendAgain = ({ id, status }: Notification) => {
    if (form === undefined || !GIVEN_UP.includes(status)) return "";
    const button = <button class="outline">Send again</button>;
    return form("/notifications/send", { id }, button, resendSql(id));
  };
  return table("Notifications", notifications, {
    To: (row) => linked(row.account_id),
    Subscription: (row) => linked(row.subscription_id),
    Status: (row) => [
      <strong class={GIVEN_UP.includes(row.status) ? "bad" : ""}>
        {visible(row.status)}
      </strong>,
      <small>{counted(row.attempts, "attempt")}</small>,
      sendAgain(row),
    ],
    "Last error": (row) => value(row.last_error),
    Made: (row) => time(row.created_at),
    "Next attempt": (row) =>
      time(row.status === "pending" ? row.next_attempt_at : row.sent_at),
  });
}
