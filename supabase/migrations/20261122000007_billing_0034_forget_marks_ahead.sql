/*
 * For import and reconcile. An event that is dated ahead of the clock is refused,
 * but a record may have the mark of one that was accepted, with a wide tolerance
 * or before there was a limit. Until that time, all new events and corrections
 * are older than the mark and change nothing. So these commands remove the mark
 * before they correct the record.
 *
 * Five minutes is the default tolerance. A mark that is less far ahead is soon
 * in the past.
 *
 * past_due_since ahead of the clock would lengthen the grace of an account until
 * then. Whatever it was, it was not after the event was received. So it becomes
 * the present, which is the latest that it can have been.
 */
create or replace function public.forget_marks_ahead(p_provider text, p_subscription_id text)
returns boolean
language plpgsql
volatile
set search_path = ''
as $$
declare
  latest constant timestamptz := now() + interval '5 minutes';
begin
  update public.subscriptions s set
    account_as_of = case when s.account_as_of <= latest then s.account_as_of end,
    changed_as_of = case when s.changed_as_of <= latest then s.changed_as_of end,
    canceled_as_of = case when s.canceled_as_of <= latest then s.canceled_as_of end,
    past_due_since = case when s.past_due_since > latest then now() else s.past_due_since end
  where s.id = p_subscription_id
    and s.provider = p_provider
    and greatest(s.account_as_of, s.changed_as_of, s.canceled_as_of, s.past_due_since) > latest;
  return found;
end;
$$;

revoke all on function public.forget_marks_ahead(text, text)
  from public, anon, authenticated, service_role;
grant execute on function public.forget_marks_ahead(text, text) to service_role;

comment on function public.forget_marks_ahead(text, text) is
  'Removes the ordering marks of a record that are more than five minutes ahead of the clock, so that corrections and events take effect again, and sets such a past_due_since to now. Returns whether there were any. Called by import and reconcile.';
