/*
 * Tells whether an account may use what it pays for. One rule for the app, its
 * server and its policies.
 *
 * An account has access if one of its subscriptions counts:
 *
 * - Its status is active or trialing: of both, Stripe says that it is safe to
 *   provide the service ("How subscriptions work"). The provider's own status
 *   decides, because a creation sets `status` to active even if the first payment
 *   has not been made; a deletion decides in any case. Every other status, an
 *   unknown one too, does not count.
 * - Or it is past_due, and for less than the grace. The grace begins when the
 *   status changed, not at the end of the period: Stripe moves the period on at
 *   renewal, about an hour before it tries to collect the payment ("What events can
 *   I see when a subscription is renewed?"), so `current_period_end` ends a period
 *   that nobody has paid for. If the change was not seen, because its event was
 *   lost or came before `past_due_since` was there, the grace begins at the end of
 *   the period or at the newest event, whichever is earlier; the period's end alone
 *   if no event had a time.
 * - Its invoices are not voided (`paused`), since nobody pays for that time. Stripe's
 *   page "Pause payment collection" used to name `void` for a service that is not
 *   provided, and `mark_uncollectible` for a free one. Today it names all three for
 *   a service that continues, so docs/app.md says what `void` means here.
 * - The time at which it was going to be canceled has not passed, because the
 *   event of the deletion may come late.
 *
 * `current_period_end` does not decide, because the event of a renewal may come
 * late.
 *
 * The caller's rights count (`security invoker`), so a policy on subscriptions
 * limits what a user may ask. Postgres does not inline a function with a subquery;
 * so the fixed search_path costs no better plan.
 */
create function public.has_access(account_id text, grace interval default '0')
returns boolean
language sql
stable
set search_path = ''
as $$
  select exists (
    select from public.subscriptions s
    where s.account_id = has_access.account_id
      and s.status <> 'canceled'
      and s.paused is distinct from 'void'
      and (s.cancel_at is null or s.cancel_at > now())
      and case coalesce(s.provider_status, s.status)
        when 'active' then true
        when 'trialing' then true
        when 'past_due' then
          has_access.grace > '0' and now() < has_access.grace + coalesce(
            s.past_due_since, least(s.current_period_end, s.changed_as_of)
          )
        else false
      end
  )
$$;

revoke all on function public.has_access(text, interval)
  from public, anon, authenticated, service_role;
grant execute on function public.has_access(text, interval) to service_role;

comment on function public.has_access(text, interval) is
  'Returns whether the account has a subscription that is active or on trial, or past_due for less than the grace. It looks at the rows that the caller may read.';
