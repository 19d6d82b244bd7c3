/** @jsxImportSource hono/jsx */
/** The card that shows whether an account has access, as the database tells apps, and why. */
import type { Child } from "hono/jsx";
import type { Row } from "../common/project_api.ts";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

type Subscription = Row<"billing_subscriptions">;

type Access = Awaited<ReturnType<typeof readAccess>>;

export async function readAccess(project: Project, account: string) {
  const [isGiven, subscriptions] = await Promise.all([
    project.hasAccess(account),
    project.read("billing_subscriptions", {
      account_id: `eq.${account}`,
      order: "current_period_end.desc.nullslast",
      limit: `${ui.PAGE_SIZE}`,
    }),
  ]);
  return { account, isGiven, subscriptions };
}

export function accessCard({ account, isGiven, subscriptions }: Access): Child {
  const entitling = subscriptions.filter(({ paid_until }) =>
    paid_until !== null
  );
  const reasons = (isGiven ? entitling : subscriptions).map((subscription) => (
    <li>
      {ui.linked(subscription.id)}:{" "}
      {isGiven ? reasonFor(subscription) : reasonAgainst(subscription)}
    </li>
  ));

  return (
    <article class={isGiven ? "good" : "bad"}>
      <h2>Has access: {isGiven ? ["yes, ", duration(entitling)] : "no"}</h2>
      <p>Account {ui.visible(account)}</p>
      {reasons.length > 0
        ? <ul>{reasons}</ul>
        : <p>No subscription of this account is recorded.</p>}
    </article>
  );
}

function duration(entitling: readonly Subscription[]) {
  const paid = entitling.filter(({ paid_until }) => paid_until === "infinity");
  if (paid.length === 0) {
    return "until the grace period for a late payment ends";
  }
  const ends = paid.map(({ cancel_at }) => Date.parse(cancel_at ?? ""));
  const last = Math.max(...ends);
  return Number.isNaN(last)
    ? "with no end planned"
    : ["until ", ui.time(new Date(last).toISOString())];
}

function reasonFor(subscription: Subscription) {
  const { paid_until, cancel_at, provider_status } = subscription;
  if (paid_until !== "infinity") return pastDue(subscription);
  const status = ui.value(provider_status ?? subscription.status);
  return cancel_at ? [status, ", ends ", ui.time(cancel_at)] : status;
}

function reasonAgainst(subscription: Subscription) {
  const { status, canceled_at, cancel_at, paused, paid_until } = subscription;
  if (status === "canceled") return ["canceled ", ui.time(canceled_at)];
  if (Date.parse(cancel_at ?? "") <= Date.now()) {
    return ["ended as planned ", ui.time(cancel_at)];
  }
  if (paused === "void") {
    const { paused_until } = subscription;
    return ["paused", paused_until && [" until ", ui.time(paused_until)]];
  }
  if (paid_until !== null) {
    return [pastDue(subscription), ", and the grace period is over"];
  }
  return ui.value(subscription.provider_status ?? status);
}

function pastDue({ past_due_since, paid_until }: Subscription) {
  return ["past due since ", ui.time(past_due_since ?? paid_until)];
}
