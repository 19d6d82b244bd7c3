-- Why it is failing: open failures by error, with an example of each.
-- docs/operate.md in the receiver's repository says what to do for each code.
select
  error_code,
  type,
  error,
  count(*) as events,
  min(first_failed_at) as since,
  max(last_failed_at) as last,
  min(event_id) as for_example
from billing.failed_events
where resolved_at is null
group by error_code, type, error
order by events desc;
