/*
 * Alerts to the operator use the outbox of the accounts' notifications: the same
 * claims, leases, retries and pruning. An alert belongs to an error code, and to
 * no event or account.
 */
alter table public.notifications
  add column kind text not null default 'payment_failed'
    check (kind in ('payment_failed', 'failure_opened', 'failures_resolved')),
  add column alert jsonb,
  alter column provider drop not null,
  alter column event_id drop not null,
  alter column account_id drop not null,
  alter column subscription_id drop not null,
  add constraint notifications_content_check check (
    case
      when kind = 'payment_failed' then
        alert is null
        and num_nulls(provider, event_id, account_id, subscription_id) = 0
      else coalesce(jsonb_typeof(alert -> 'error_code') = 'string', false)
    end
  ),
  drop constraint notifications_status_check,
  add constraint notifications_status_check
    check (status in ('pending', 'sent', 'dead', 'undeliverable', 'withdrawn'));

-- Due notifications, oldest first: those to accounts, and apart from them those
-- to the operator. If one receiver is not configured, its rows pile up, and
-- nobody reads through them for the other's.
drop index public.notifications_due;
create index notifications_due on public.notifications ((kind <> 'payment_failed'), next_attempt_at)
where status = 'pending';

comment on table public.notifications is
  'The outbox: one notification per invoice.payment_failed event to its account, and alerts to the operator.';
comment on column public.notifications.kind is
  'payment_failed: to an account. failure_opened and failures_resolved: alerts to the operator (ALERT_URL).';
comment on column public.notifications.alert is
  'What an alert says, as it was when the row was written; null for accounts.';
comment on column public.notifications.event_id is 'The event that created it; null for alerts.';
comment on column public.notifications.account_id is
  'The account that owned the subscription when the event was applied; null for alerts.';
comment on column public.notifications.status is
  'pending until it is delivered (sent), given up (dead), or the account turns out to have no address (undeliverable). withdrawn: an alert that was no longer true before it was delivered.';
comment on column public.notification_pace.destination is
  'The receiver: resend, the host of NOTIFICATION_URL, or "alerts to" and the host of ALERT_URL.';
