/**
 * The property detects wrong rules: each of three earlier rules for updates of
 * one second breaks it within 2,000 histories.
 *
 * @module
 */
import { assert, assertRejects } from "@std/assert";
import postgres from "postgres";
import { setting } from "../support/test_environment.ts";
import { checkHistories } from "./check_histories.ts";
import { freshSeed } from "../support/random.ts";

const RUNS = 2_000;

/** The fields under the rule, with their times in seconds. */
const HELD = `jsonb_build_object(
  'status', subscription.status,
  'plan_id', subscription.plan_id,
  'current_period_end', extract(epoch from subscription.current_period_end)::bigint,
  'provider_status', subscription.provider_status,
  'customer_id', subscription.customer_id,
  'quantity', subscription.quantity,
  'cancel_at', extract(epoch from subscription.cancel_at)::bigint,
  'trial_end', extract(epoch from subscription.trial_end)::bigint,
  'paused', subscription.paused,
  'livemode', subscription.livemode
)`;
const BROUGHT = HELD.replaceAll("subscription.", "p_");

/** What they did with an update of the second of the newest update. */
const FORMER_RULES = {
  "the first arrival wins": "return 'stale';",
  "the later arrival wins": "null;",
  "the one whose new values are the other's previous ones came first": `
    if subscription.changed_in_second <> '{}' and ${BROUGHT} @> subscription.changed_in_second
      and not (p_previous <> '{}' and ${HELD} @> p_previous)
    then
      return 'stale';
    end if;`,
};

for (const [name, rule] of Object.entries(FORMER_RULES)) {
  Deno.test(`histories break the rule that ${name}`, async () => {
    const seed = freshSeed();
    console.log(`seed ${seed}`);
    const sql = postgres(setting("TEST_DATABASE_URL"), {
      max: 1,
      connection: { synchronous_commit: "off" },
    });
    try {
      // Never committed: nobody else sees the function.
      await sql.unsafe("begin").simple();
      await sql.unsafe(updateFunction(rule)).simple();
      const { cause } = await assertRejects(
        () => checkHistories(sql, { seed, runs: RUNS }),
        Error,
        "Property failed",
      );
      assert(cause instanceof Error && cause.name === "AssertionError");
    } finally {
      await sql.end();
    }
  });
}

function updateFunction(rule: string): string {
  return `
    create or replace function public.apply_subscription_updated(
      p_provider text,
      p_created timestamptz,
      p_subscription_id text,
      p_status text,
      p_plan_id text,
      p_current_period_end timestamptz,
      p_previous jsonb,
      p_provider_status text default null,
      p_customer_id text default null,
      p_quantity integer default null,
      p_cancel_at timestamptz default null,
      p_trial_end timestamptz default null,
      p_paused text default null,
      p_livemode boolean default null
    )
    returns text
    language plpgsql
    volatile
    set search_path = ''
    as $$
    declare
      subscription public.subscriptions;
    begin
      subscription := public.find_subscription(p_provider, p_subscription_id);
      -- As today: it is not what these rules were about.
      if p_status = 'past_due' and p_previous ->> 'status' <> p_status then
        update public.subscriptions s set past_due_since = greatest(s.past_due_since, p_created)
        where s.id = p_subscription_id;
      end if;
      if p_created < subscription.changed_as_of then
        return 'stale';
      end if;
      if p_created = subscription.changed_as_of and subscription.changed_by_update then
        ${rule}
      end if;
      update public.subscriptions s set
        status = case when p_created <= s.canceled_as_of then s.status else p_status end,
        plan_id = p_plan_id,
        current_period_end = p_current_period_end,
        provider_status = p_provider_status,
        customer_id = p_customer_id,
        quantity = p_quantity,
        cancel_at = p_cancel_at,
        trial_end = p_trial_end,
        paused = p_paused,
        livemode = p_livemode,
        changed_as_of = coalesce(p_created, s.changed_as_of),
        changed_by_update = true,
        changed_in_second = p_previous
      where s.id = p_subscription_id;
      return 'applied';
    end;
    $$`;
}
