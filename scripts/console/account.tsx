/** @jsxImportSource hono/jsx */
/** What an account has, and why; its grants are made and ended here. */
import type { Child } from "hono/jsx";
import type { Row } from "../common/project_api.ts";
import { NOT_SENT, notificationTable } from "./notifications.tsx";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

interface Grant extends Row<"billing_grants"> {
  readonly billing_subscriptions: Row<"billing_subscriptions">;
}

const FACTS =
  "status,subscription_id,provider,plan_id,quantity,current_period_end,trial_end,cancel_at,past_due_since,paused";

type Account = Awaited<ReturnType<typeof readAccount>>;

export function addGrants({ app, project, showResult }: ui.Console): void {
  /** A second click gets the answer of the first: amounts of grants add up. */
  const sent = new Map<string, Promise<ui.Notice>>();

  app.on("POST", ["/grant_plan", "/end_grant"], async (c) => {
    const fields = await ui.readForm(c);
    const { form: _, until, ...args } = fields;
    const send = () =>
      ui.attempt(async () => {
        const end = until && { until: `${until}Z` };
        const answer = await project.call(c.req.path.slice(1), {
          ...args,
          ...end,
        });
        return { done: `Done: ${answer}` };
      });

    const key = JSON.stringify(fields);
    if (!sent.has(key)) sent.set(key, send());
    const notice = await sent.get(key)!;
    if (notice.problem) sent.delete(key);
    const q = args["account_id"] ?? args["grant_id"] ?? "";
    return showResult(c, ui.link("/search", { q }), notice);
  });
}

export async function readAccount(project: Project, id: string) {
  const [answer, grants, notices] = await Promise.all([
    project.account(id),
    project.read("billing_grants", {
      select: "*,billing_subscriptions!inner(*)",
      "billing_subscriptions.account_id": `eq.${id}`,
      order: "granted_at.desc",
    }) as Promise<Grant[]>,
    project.read("billing_notifications", {
      account_id: `eq.${id}`,
      status: `in.(${NOT_SENT})`,
      order: "created_at",
      limit: `${ui.PAGE_SIZE}`,
    }),
  ]);
  return { id, answer, grants, notices };
}

export function accountSection(account: Account): Child {
  const { id, grants, notices } = account;
  return [
    accessCard(account),
    grants.length > 0 && grantTable(grants),
    grants.filter(isInForce).map(endForm),
    grantForm(id),
    notices.length > 0 && [
      <h2>Notifications not sent</h2>,
      notificationTable(notices),
    ],
  ];
}

function accessCard({ id, answer, grants }: Account) {
  const { access, access_until, subscriptions, paused, features } = answer;
  const until = access_until
    ? ["until ", ui.time(access_until)]
    : "with no end known";
  const paying = (subscriptions ?? 0) - grants.filter(isInForce).length;
  const amounts = Object.entries(features).map(([feature, amount]) =>
    `${feature} ${amount?.toLocaleString("en") ?? "unlimited"}`
  );

  return (
    <article class={access ? "good" : "bad"}>
      <h2>Has access: {access ? ["yes, ", until] : "no"}</h2>
      {paying > 1 && (
        <p>
          <strong class="bad">Pays for {paying} subscriptions at once</strong>
        </p>
      )}
      <p>Account {ui.visible(id)}</p>
      {subscriptions === null
        ? <p>No subscription of this account is recorded.</p>
        : ui.facts({ ...answer, paused: paused || null }, FACTS)}
      <p>
        Features{access || " of plan free"}:{" "}
        {ui.visible(amounts.sort().join(", ") || "none")}
      </p>
    </article>
  );
}

function isInForce({ billing_subscriptions: { paid_until } }: Grant): boolean {
  return paid_until !== null;
}

function grantTable(grants: readonly Grant[]) {
  return ui.table("Grants", grants, {
    Grant: ({ subscription_id, billing_subscriptions }) => [
      ui.value(billing_subscriptions.plan_id),
      <small>quantity {billing_subscriptions.quantity}</small>,
      <small>{subscription_id}</small>,
    ],
    Until: ({ billing_subscriptions: { cancel_at } }) =>
      cancel_at ? ui.time(cancel_at) : "no end",
    Reason: ({ reason }) => ui.value(reason),
    Granted: ({ granted_at, granted_by }) => [
      ui.time(granted_at),
      <small>by {ui.value(granted_by)}</small>,
    ],
    Ended: (grant) =>
      grant.ended_at && [
        ui.time(grant.ended_at),
        <small>
          by {ui.value(grant.ended_by)}: {ui.value(grant.ended_reason)}
        </small>,
      ],
  });
}

function endForm({ subscription_id: grant_id }: Grant) {
  return (
    <details>
      <summary>End {grant_id}</summary>
      {ui.form("/end_grant", { grant_id }, [
        ui.reasonFields(),
        <button>End now</button>,
      ])}
    </details>
  );
}

export function grantForm(account_id: string): Child {
  const fields = { account_id, form: crypto.randomUUID() };
  return (
    <details>
      <summary>Grant a plan to {ui.visible(account_id)}</summary>
      {ui.form("/grant_plan", fields, [
        <div class="grid">
          {ui.field("Plan: a price or product", {
            name: "plan_id",
            required: true,
            maxlength: 255,
          })}
          {ui.field("Until, in UTC (empty: no end)", {
            name: "until",
            type: "datetime-local",
          })}
          {ui.field("Quantity", {
            name: "quantity",
            type: "number",
            min: 1,
            value: 1,
            required: true,
          })}
        </div>,
        ui.reasonFields(),
        <button>Grant</button>,
      ])}
    </details>
  );
}
