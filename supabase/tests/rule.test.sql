/*
 * The rule, billing.next, as a table of cases: what a subscription's record is after
 * events, in the order in which they arrive.
 *
 * How to read a case: `creation 10, update 30 past_due, update 20 unpaid` are three
 * events that occurred 10, 30 and 20 seconds after some moment and arrived in this
 * order; `-` is an event without a time. Each names its account and plan after its
 * own time (a creation at 10: account A10, plan P10), so the record shows which event a
 * field came from. A bare word is the status that the event reports, otherwise active.
 * `items=P+S` is a list of two. `was` says what an update replaced (`was nothing`:
 * nothing that we keep); without it, the event does not say. A field is `unstated` if
 * the event does not have it. `opening` is an opening_update, `ending` a deletion that
 * reports the whole subscription and names its account.
 *
 * The record reads: account, status, plan, `deleted` if canceled_at is set, `since`
 * past_due_since, and then the other columns that are not null.
 *
 * Unless a case begins with `ordered:`, the end state is the same whatever the order of
 * arrival, as long as a creation is the first. The test compares all columns in all orders.
 */
begin;

create function pg_temp.at(seconds numeric)
returns timestamptz language sql
return to_timestamp(1800000000) + seconds * interval '1 second';

create function pg_temp.parse(description text)
returns billing.event language plpgsql as $$
declare
  words constant text[] := regexp_split_to_array(trim(description), '\s+');
  e billing.event;
  word text;
  field text;
  value jsonb;
  of_previous boolean := false;
begin
  e.place := 0;
  e.provider := 'a';
  e.subscription_id := 'sub';
  e.type := words[1];
  e.kind := case words[1]
    when 'payment' then 'payment_failed'
    when 'opening' then 'opening_update'
    when 'ending' then 'deletion'
    else words[1]
  end;
  e.occurred_at := pg_temp.at(nullif(words[2], '-')::numeric);
  e.handled_at := pg_temp.at(99);
  e.report := '{}';
  if e.kind in ('creation', 'update', 'opening_update') or words[1] = 'ending' then
    e.report := jsonb_build_object('plan_id', 'P' || words[2], 'provider_status', 'active');
  end if;
  if e.kind in ('creation', 'opening_update') or words[1] = 'ending' then
    e.account_id := 'A' || words[2];
  end if;

  foreach word in array words[3:] loop
    field := case
      when word !~ '=' then 'provider_status'
      else replace(
        replace(split_part(word, '=', 1), 'plan', 'plan_id'), 'status', 'provider_status'
      )
    end;
    value := to_jsonb(nullif(split_part(word, '=', -1), 'null'));
    if field ~ '_(at|end|until)$' and jsonb_typeof(value) = 'string' then
      value := to_jsonb(pg_temp.at((value #>> '{}')::numeric));
    elsif field = 'items' then
      value := to_jsonb(string_to_array(value #>> '{}', '+'));
    end if;

    if word = 'was' then
      of_previous := true;
      e.previous := '{}';
    elsif word = 'nothing' then
      null;
    elsif field in ('account', 'provider', 'customers_account') then
      e := jsonb_populate_record(
        e, jsonb_build_object(case field when 'account' then 'account_id' else field end, value)
      );
    elsif of_previous then
      e.previous := e.previous || jsonb_build_object(field, value);
    elsif value = '"unstated"' then
      e.report := e.report - field;
    else
      e.report := e.report || jsonb_build_object(field, value);
    end if;
  end loop;
  return e;
end;
$$;

create function pg_temp.parse_all(descriptions text)
returns billing.event[] language sql
return array(
  select pg_temp.parse(d.description)
  from string_to_table(descriptions, ',') with ordinality as d (description, place)
  order by d.place
);

create function pg_temp.fold(events billing.event[])
returns billing.step[] language sql
return array(
  select billing.fold(null::billing.records, e.event) over (order by e.place)
  from (select unnest(events) as event, generate_subscripts(events, 1) as place) as e
  order by e.place
);

create function pg_temp.steps(arriving text)
returns billing.step[] language sql
return pg_temp.fold(pg_temp.parse_all(arriving));

create function pg_temp.describe(r billing.records)
returns text language sql
return concat_ws(
  ' ', r.account_id, r.status, r.plan_id,
  case when r.canceled_at is not null then 'deleted' end,
  'since ' || trim_scale(extract(epoch from r.past_due_since) - 1800000000),
  (
    select string_agg(
      f.name || '=' || case
        when f.name ~ '_(at|end|until)$'
          then (extract(epoch from f.value::timestamptz) - 1800000000)::integer::text
        when f.name = 'items' then translate(f.value, ',[" ]', '+')
        else f.value
      end, ' ' order by f.name
    )
    from jsonb_each_text(to_jsonb(r)) as f (name, value)
    where f.value is not null
      and f.name in (
        'current_period_end', 'customer_id', 'quantity', 'paused', 'livemode', 'items'
      )
  )
);

-- Such as '3 stale, 4 BW001: A10 active P10'.
create function pg_temp.check_case(arriving text)
returns text language sql
return (
  select coalesce(string_agg(
    s.ordinality || ' ' || coalesce(s.error_code, s.outcome), ', ' order by s.ordinality
  ) filter (where s.outcome <> 'applied') || ': ', '')
    || pg_temp.describe((array_agg(s.record order by s.ordinality desc))[1])
  from unnest(pg_temp.steps(arriving)) with ordinality as s
);

create temporary table cases (
  place integer generated always as identity, stated text, after text, why text,
  any_order boolean generated always as (stated !~ '^ordered: ') stored,
  arriving text generated always as (replace(stated, 'ordered: ', '')) stored
);
insert into cases (stated, after, why)
values
  -- What each kind does.
  ('creation 10', 'A10 active P10', 'a creation makes a record'),
  ('creation 10 incomplete', 'A10 active P10', 'that is active, whatever the creation reports'),
  ('creation 10, update 20 past_due', 'A10 past_due P20 since 20', 'an update brings status and plan'),
  ('creation 10, update 20 on_hold', 'A10 on_hold P20', 'any status, also one that nobody knows'),
  ('creation 10, update 20 unpaid, deletion 30', 'A10 canceled P20 deleted', 'a deletion cancels'),
  ('creation 10, payment 30, update 20', 'A10 active P20', 'a failed payment has no part in the order'),
  ('opening 10 trialing', 'A10 trialing P10', 'an opening update makes a record, with the status that it reports'),
  ('opening 10, opening 20 past_due, update 30 unpaid', 'A20 unpaid P30', 'and names the account as a creation does'),
  ('opening 10, opening 20 account=null, opening 15', 'A15 active P20', 'the newest that names one'),
  ('opening 20 account=null customers_account=C, opening 10 past_due', 'A10 active P20',
    'an older one brings the account of a newer one that names none'),
  ('opening 20, opening 10', '2 stale: A20 active P20', 'an older one changes nothing'),
  ('opening 10, opening 20 past_due, opening 30', 'A30 active P30', 'a payment that was late is made once, by any order'),
  ('opening 10 past_due, opening 20, opening 30', 'A30 active P30', 'at the first one after it'),
  ('creation 10 unpaid, opening 20, opening 30', 'A30 active P30', 'also if the creation reports it'),
  ('creation 10, opening 20, opening 30', 'A30 active P30', 'or never'),
  ('ordered: opening 20, opening - account=B, opening 10', '3 stale: B active P-', 'also after one without a time'),
  ('opening 10, deletion 20, opening 15 past_due', 'A15 canceled P15 deleted since 15', 'a deletion after it decides'),
  ('opening 10 canceled', 'A10 canceled P10 deleted', 'it may report the end'),
  ('opening 20, opening 10 canceled', '2 stale: A20 active P20 deleted', 'and tells of it, also if it is late'),
  ('ending 20', 'A20 canceled P20 deleted', 'a deletion that reports the whole subscription makes a record, ended'),
  ('ending 20 account=null customers_account=C', 'C canceled P20 deleted', 'of the account of its customer, if it names none'),
  ('ordered: ending 20 account=null', '1 BW005: ', 'so it needs one'),
  ('ordered: ending 20 plan=unstated', '1 BW001: ', 'without a plan, it makes none'),
  ('creation 10, ending 20', 'A10 canceled P10 deleted', 'a record that is there keeps its account and plan'),
  ('ending 20, opening 10 past_due', 'A10 canceled P10 deleted since 10', 'a late update brings its own, but not the status'),
  ('ending 20, opening 10 account=null, payment 15', 'A20 canceled P10 deleted', 'an account is kept if it names none'),
  ('ending 20, opening 15, creation 10, opening 18 unpaid', '3 stale: A18 canceled P18 deleted', 'late events are ordered among themselves'),
  ('ending 20, ending 30, ending 25', '3 stale: A30 canceled P30 deleted', 'of several, the newest counts'),
  ('ending 20, opening 30 trialing', 'A30 trialing P30 deleted', 'a newer update brings the subscription back'),
  ('ending 20 past_due, opening 30 past_due', 'A30 past_due P30 deleted since 30', 'a deletion tells nothing of past_due'),
  ('ending 20, update 10 unpaid was past_due', 'A20 canceled P10 deleted', 'an update that makes no record is no different'),
  ('ordered: update 20', '1 BW001: ', 'an update needs a record'),
  ('ordered: deletion 20', '1 BW001: ', 'so does a deletion'),
  ('ordered: payment 20', '1 BW001: ', 'so does a failed payment'),
  ('creation 10, refund 20', '2 BW003: A10 active P10', 'other kinds have no effect'),
  ('ordered: creation 10, update 20 provider=b, creation 30 provider=b, deletion 40 provider=b, payment 50 provider=b',
    '2 BW002, 3 BW002, 4 BW002, 5 BW002: A10 active P10', 'a subscription belongs to the provider that created it'),

  -- The newer event wins.
  ('creation 10, update 30, update 20 unpaid', '3 stale: A10 active P30', 'an update older than the newest is stale'),
  ('creation 10, deletion 20, update 21 trialing', 'A10 trialing P21 deleted',
    'an update newer than the deletion brings the subscription back; canceled_at stays'),

  -- At the same time: creation before update before deletion.
  ('creation 10, update 20 unpaid, creation 20 plan=P0', 'A20 unpaid P20',
    'a creation at the time of the update comes before it: it brings only the account'),
  ('creation 10, deletion 20, creation 20', 'A20 canceled P20 deleted', 'and a creation before the deletion: it leaves the status'),
  ('creation 10, update 20 unpaid, deletion 20', 'A10 canceled P20 deleted', 'a deletion comes after the update'),

  -- Field by field.
  ('creation 10, deletion 30, update 20 unpaid', 'A10 canceled P20 deleted',
    'a late update of a canceled subscription brings what is reported, not the status'),
  ('creation 10, deletion 30, update 25, update 20 unpaid', '4 stale: A10 canceled P25 deleted', 'such updates are ordered among themselves'),
  ('creation 10, update 30 unpaid, deletion 20', 'A10 unpaid P30 deleted',
    'a deletion older than the newest update leaves the status, and canceled_at tells of it'),
  ('creation 10, update 30 unpaid, deletion 20, update 25', '4 stale: A10 unpaid P30 deleted',
    'an update between such a deletion and the newest update is stale'),
  ('creation 10, deletion 30, deletion 20, update 25', '3 stale: A10 canceled P25 deleted', 'a deletion older than another one is stale'),
  ('creation 10, deletion 20, deletion 20', 'A10 canceled P10 deleted', 'two at the same time are both applied'),

  -- More than one creation.
  ('creation 20, creation 10', '2 stale: A20 active P20', 'a newer creation takes the record over; one older than that of the record is stale'),
  ('ordered: creation 10, creation 10 account=A11 plan=P11', 'A11 active P11', 'of two at the same time, the later arrival wins'),
  ('creation 10, update 20 unpaid, creation 30', 'A30 active P30', 'one that is newer than everything brings everything'),
  ('creation 10, creation 30, creation 20, update 25 unpaid', '3 stale, 4 stale: A30 active P30',
    'what lies between two creations is stale after the newer one'),
  ('creation 10, update 40 unpaid, creation 30, creation 20, update 35', '4 stale, 5 stale: A30 unpaid P40',
    'a creation that brings only the account is the newest creation, and not the newest change'),
  ('creation 10, update 20 unpaid was past_due, creation 15, update 20 past_due was active', '4 stale: A15 unpaid P20',
    'it does not disturb the order of two updates of the same second'),
  ('creation 10, update 20 past_due was trialing, creation 30, update 30 trialing plan=P31', 'A30 trialing P31',
    'an update that a newer creation replaced does not count in the second of the creation'),
  ('creation 10, deletion 20, creation 30', 'A30 active P30 deleted', 'a creation newer than the deletion brings the subscription back'),

  -- Accounts.
  ('ordered: creation 10 account=null', '1 BW005: ', 'a creation needs an account'),
  ('creation 10 account=null customers_account=K', 'K active P10', 'which may be that of the customer'),
  ('creation 10 customers_account=K', 'A10 active P10', 'if the event names none'),
  ('creation 10 account=null customers_account=K, creation 5', 'A5 active P10',
    'an account that an event names wins over that of the customer, however old the event is'),
  ('creation 10, creation 20 account=null customers_account=K', 'A10 active P20',
    'a creation that names no account leaves that of the record'),
  ('creation 10, creation 20 account=null, creation 15', 'A15 active P20', 'and one between the two that names it brings it'),
  ('creation 10, update 30, creation 20 account=null', '3 stale: A10 active P30',
    'a creation that would bring neither account nor report is stale'),

  -- Updates of the same second: what they state, without what they replaced.
  ('creation 10, update 20 past_due was active, update 20 unpaid was past_due', 'A10 unpaid P20',
    'of two updates of the same second, what one replaced shows that the other is older'),
  ('creation 10, update 20 plan=P2 unpaid was active, update 20 plan=P2 was plan=P10', '3 stale: A10 unpaid P2', 'and for different fields'),
  ('creation 10, update 20 unpaid was past_due, update 20 past_due', '3 stale: A10 unpaid P20', 'it is enough if one of them, whichever, says it'),
  ('ordered: creation 10, update 20 plan=P3 unpaid was past_due, update 20 plan=P9 past_due was active', 'A10 unpaid P9',
    'each field is decided by itself'),
  ('creation 10, deletion 20, update 20 unpaid was past_due, update 20 past_due was active',
    '4 stale: A10 canceled P20 deleted', 'a deletion at that time does not disturb it'),
  ('creation 10, update 20 unpaid was past_due, update 21 past_due was active', 'A10 past_due P21 since 21',
    'what was replaced counts only in its own second'),
  ('creation 10, update 10 was incomplete, update 10 was nothing, update 10 incomplete was nothing', '4 stale: A10 active P10',
    'a first payment that arrives as 2, 3, 1 ends active'),
  ('creation 10, update 20 past_due plan=P2 was active, update 20 plan=P2 was plan=P2', '3 stale: A10 past_due P2 since 20',
    'a previous value that equals the own value was not replaced: Stripe sends items whole'),
  ('creation 10, update 20 unpaid plan=P2 was past_due, update 20 plan=P1, update 20 past_due plan=P1 was active, update 20 past_due plan=P2 was plan=P1',
    'A10 unpaid P2', 'four updates: what one replaced is remembered beyond the next'),
  ('creation 10, update 20 past_due was active, update 20 unpaid, update 20 was unpaid', 'A10 past_due P20 since 20',
    'a value that was stated and not replaced comes back when those after it are replaced'),
  ('creation 10, update 20 unpaid plan=P2 was past_due plan=P1, deletion 20, update 20 past_due plan=P1 was active, update 21 plan=P2 was unpaid',
    '4 stale: A10 active P2 deleted', 'a deletion keeps the status of its second, and no longer'),

  -- If they do not say enough, or a value changed back, the later arrival wins.
  ('ordered: creation 10, update 20 unpaid plan=P3, update 20 past_due plan=P2', 'A10 past_due P2 since 20',
    'of two that do not say what they replaced'),
  ('ordered: creation 10, update 20 unpaid plan=P3 was nothing, update 20 past_due plan=P2 was nothing', 'A10 past_due P2 since 20',
    'of two that say that they replaced nothing'),
  ('ordered: creation 10, update 20 past_due was trialing, update 20 unpaid was incomplete', 'A10 unpaid P20',
    'of two that replaced something else'),
  ('ordered: creation 10, deletion 20, update 20 past_due plan=P2 was active, update 20 plan=P3 was past_due',
    'A10 canceled P3 deleted', 'a deletion at that time keeps the status, and the later arrival brings the plan'),

  -- Fields that an event does not state.
  ('creation 10 quantity=5 paused=void, update 20', 'A10 active P20 paused=void quantity=5', 'they keep their value'),
  ('ordered: creation 10 quantity=5, creation 20', 'A20 active P20 quantity=5', 'also in a newer creation'),
  ('ordered: creation 20, creation 10 quantity=5', '2 stale: A20 active P20',
    'but a stale event brings nothing: so a provider must always state the same fields'),
  ('creation 10 trialing, update 20 status=unstated', 'A10 trialing P20', 'so the status is that of the newest event that states it'),
  ('creation 10 status=null, update 20 status=unstated', 'A10 active P20', 'if none does, it stays'),
  ('creation 10, update 20 plan=unstated status=unstated, update 20 plan=unstated status=unstated', 'A10 active P10',
    'an update may state nothing that we keep'),

  -- past_due_since: the earliest known time since the status was another one.
  ('creation 10 past_due', 'A10 active P10 since 10', 'a creation may report past_due'),
  ('creation 10, update 30 past_due was nothing, update 20 past_due was active', '3 stale: A10 past_due P30 since 20',
    'it is the time of the change, whose event may be late'),
  ('creation 10, update 20 past_due was active, deletion 30', 'A10 canceled P20 deleted since 20', 'a deletion leaves it'),
  ('creation 10, update 20 past_due was active, update 30 was past_due', 'A10 active P30', 'it is null when the status is another one'),
  ('creation 10, update 20 past_due was active, update 30 was past_due, update 40 past_due was active',
    'A10 past_due P40 since 40', 'the newest change counts'),
  ('creation 10, update 20 past_due was active, update 40 past_due was unpaid', 'A10 past_due P40 since 40',
    'also if the change back was lost: the previous status tells of it'),
  ('creation 10, update 30 past_due was nothing, update 40 past_due was nothing', 'A10 past_due P40 since 30',
    'if it was lost, it is the earliest time that is known'),
  ('creation 10, update 20 past_due was past_due, update 30 past_due', 'A10 past_due P30 since 20',
    'an update that names the same previous status, or none, tells of no change'),
  ('creation 10, update 40 past_due was nothing, update 20 past_due was active, update 30 was past_due',
    '3 stale, 4 stale: A10 past_due P40 since 40', 'a late change back moves it on'),
  ('creation 10, update 40 past_due was nothing, update 30 was past_due, update 15, update 20 past_due was active',
    '3 stale, 4 stale, 5 stale: A10 past_due P40 since 40', 'and what is older than that does not move it back'),
  ('ordered: creation 10, update 20 past_due was active, update 50 past_due was nothing, update 40 past_due was nothing, update 30 was past_due',
    '4 stale, 5 stale: A10 past_due P50 since 50',
    'but if then the next change was lost too, times that were passed over before are not remembered'),
  ('creation 10, update 40 past_due was nothing, creation 30', 'A30 past_due P40 since 40', 'a creation tells of its status too'),
  ('ordered: creation 10, update 20 unpaid was past_due, update 20 past_due was active, update 30 past_due was nothing',
    '3 stale: A10 past_due P30 since 20', 'past_due for less than a second counts if the event of a later change is lost'),
  ('creation 10 past_due, update 11 past_due was nothing, update 11 was past_due, update 20 past_due was nothing',
    'A10 past_due P20 since 20', 'nor does an update in the second of the change away that tells of no change'),
  ('creation 10, update 20 past_due, update 20 unpaid was past_due, update 30 past_due', 'A10 past_due P30 since 30',
    'also if it does not say what it replaced'),
  ('creation 10, update 20 unpaid was active, update 20 past_due was unpaid', 'A10 past_due P20 since 20',
    'a change to past_due after another one in the same second counts'),
  ('creation 10, update 20 past_due was trialing, update 30 past_due was nothing, update 20 trialing was active',
    '4 stale: A10 past_due P30 since 20', 'also if that one is late'),
  ('creation 10 past_due, creation 20 status=null', 'A20 active P20', 'without a status, nothing is past_due'),
  ('ordered: creation -, update - past_due was active', 'A- past_due P- since 99', 'without a time, it is the time of handling'),
  ('ordered: creation 10, update - past_due was active, update 30', 'A10 active P30', 'which does not outlive the status'),
  ('ordered: creation 10, update - unpaid, update 30 past_due was nothing', 'A10 past_due P30 since 30',
    'nor hides a change that is dated before it'),

  -- Without a time, the specification's table applies as it stands.
  ('ordered: creation -, update - unpaid, deletion -, update -', 'A- active P- deleted', 'all are applied as they arrive'),
  ('ordered: creation -, update - unpaid, deletion -', 'A- canceled P- deleted', 'a deletion cancels'),
  ('ordered: creation 10, creation - account=A11', '2 stale: A10 active P10', 'a creation that finds a record changes nothing'),
  ('ordered: creation 10, update 20 unpaid, deletion 30, update -', 'A10 active P- deleted', 'an update is applied, whatever the record has'),
  ('ordered: creation 10, update 20 unpaid, update -, update 15, update 25 trialing', '4 stale: A10 trialing P25',
    'it does not change the order of those that have a time'),
  ('ordered: creation 10, deletion 30, deletion -, deletion 20, update 25', '4 stale: A10 canceled P25 deleted', 'neither does a deletion'),
  ('ordered: creation 10, update 20 unpaid was past_due, update - trialing plan=P20 was unpaid, update 20 past_due was active',
    '4 stale: A10 trialing P20', 'nor what is known of updates of the same second'),
  ('ordered: creation 10, update 20 unpaid was past_due, deletion -, update 20 past_due was active',
    '4 stale: A10 canceled P20 deleted', 'a stale update does not bring back the status'),
  ('ordered: creation -, update - unpaid, creation 10', 'A10 active P10', 'a creation with a time outranks a record without'),
  ('ordered: creation 10 past_due, update 20 past_due was nothing, creation - unpaid', '3 stale: A10 past_due P20 since 10',
    'a stale event without a time tells nothing of past_due');

-- The same for columns of each type.
insert into cases (stated, after, why)
select format(c.stated, f.name, f.one, f.two), format(c.after, f.name, f.one, f.two), format(c.why, f.name)
from (
  values
    ('current_period_end', '1', '2'), ('customer_id', 'cus_1', 'cus_2'), ('quantity', '0', '2147483647'),
    ('livemode', 'true', 'false'), ('items', 'P', 'P+S')
) as f (name, one, two)
cross join (
  values
    ('creation 10 %1$s=%2$s, update 20 %1$s=%3$s, update 15 %1$s=%2$s, creation 12 %1$s=%2$s, deletion 30',
      '3 stale: A12 canceled P20 deleted %1$s=%3$s', '%s: the newest creation or update brings it; a deletion leaves it'),
    ('creation 10 %1$s=%2$s, deletion 30, update 20 %1$s=%3$s', 'A10 canceled P20 deleted %1$s=%3$s',
      '%s: an update older than a deletion brings it'),
    ('creation 10 %1$s=%2$s, update 20 %1$s=null, update 15 %1$s=%3$s', '3 stale: A10 active P20', '%s: null is a value'),
    ('creation 10 %1$s=%2$s, update 20 %1$s=%3$s was %1$s=null, update 20 %1$s=null was %1$s=%2$s',
      '3 stale: A10 active P20 %1$s=%3$s', '%s: in one second, from a value to null to a value'),
    ('ordered: creation 10, update 20 %1$s=null was %1$s=%2$s, update 20 %1$s=%2$s was %1$s=null, update 20 %1$s=null was nothing',
      'A10 active P20', '%s: of a value that changes back, the later arrival wins')
) as c (stated, after, why);

select plan(67 + count(*)::integer) from cases;

select is(pg_temp.check_case(c.arriving), c.after, c.why || ' (' || c.arriving || ')')
from cases c
order by c.place;

create function pg_temp.orders(events billing.event[])
returns setof billing.event[] language sql as $$
  with recursive chosen (places) as (
    select array[i]
    from generate_subscripts(events, 1) as i
    where billing.opens(events[i])
      and coalesce(events[i].account_id, events[i].customers_account) is not null
    union all
    select c.places || i
    from chosen c, generate_subscripts(events, 1) as i
    where i <> all (c.places)
  )
  select array(
    select events[p.place]
    from unnest(c.places) with ordinality as p (place, turn)
    order by p.turn
  )
  from chosen c
  where cardinality(c.places) = cardinality(events)
$$;

-- All but what is kept of the updates of the second, which is in the order of arrival, and
-- what an update that does not say what it replaced tells by the record alone.
create function pg_temp.end_state(events billing.event[])
returns jsonb language sql
return to_jsonb(((pg_temp.fold(events))[cardinality(events)]).record)
  - 'changed_in_second'
  - case
    when exists (select from unnest(events) as e where e.kind = 'update' and e.previous is null)
      then 'recovered_as_of'
    else ''
  end;

select cmp_ok(
  (
    select count(*)::integer
    from cases c, pg_temp.orders(pg_temp.parse_all(c.arriving))
    where c.any_order
  ),
  '>',
  600,
  'there are many orders to try'
);
select is_empty(
  $$
    select
      c.arriving,
      pg_temp.end_state(pg_temp.parse_all(c.arriving)),
      o.events,
      pg_temp.end_state(o.events)
    from cases c, pg_temp.orders(pg_temp.parse_all(c.arriving)) as o (events)
    where c.any_order
      and pg_temp.end_state(o.events) <> pg_temp.end_state(pg_temp.parse_all(c.arriving))
  $$,
  'the end state is the same in all orders of arrival'
);

-- Fifty updates of a second are remembered.
create function pg_temp.plans(p_count integer, p_previous boolean default true)
returns text language sql
return 'creation 10, ' || (
  select string_agg(
    format('update 20 plan=P%s', i)
      || case when p_previous then format(' was plan=P%s', i - 1) else '' end,
    ', ' order by i
  )
  from generate_series(1, p_count) as i
);

select is(
  pg_temp.check_case(pg_temp.plans(60)),
  'A10 active P60',
  'sixty plans in one second, in order, end with the last'
);
select is(
  pg_temp.check_case(pg_temp.plans(60) || ', update 20 plan=P59 was plan=P58'),
  '62 stale: A10 active P60',
  'of more than fifty updates, the latest are remembered'
);
select is(
  pg_temp.check_case(pg_temp.plans(60) || ', update 20 plan=P3'),
  'A10 active P3',
  'beyond fifty, the later arrival wins'
);
select is(
  jsonb_array_length((((pg_temp.steps(pg_temp.plans(60)))[61]).record).changed_in_second),
  50,
  'a record remembers at most fifty updates'
);

select is(
  (((pg_temp.steps(c.arriving))[c.place]).record).changed_in_second,
  c.remembered,
  c.why
)
from (
  values
    (pg_temp.plans(3) || ', update 21 was plan=P3', 5, '{"plan_id": "P3"}'::jsonb,
      'an update of the next second forgets those before it'),
    ('creation 10, update 20 was unpaid, creation 30', 3, null, 'a creation forgets updates')
) as c (arriving, place, remembered, why);

-- When a late payment was made: by what the newest update replaced, or else by the record.
select is(
  (
    select extract(epoch from (s[cardinality(s)].record).recovered_as_of) - 1800000000
    from pg_temp.steps(c.arriving) as s
  ),
  c.recovered,
  'recovered: ' || c.arriving
)
from (
  values
    ('creation 10 incomplete, update 20 was incomplete', 20::numeric),
    ('creation 10, update 20 past_due was active, update 30 was past_due', 30),
    ('creation 10, update 40 was unpaid, update 30 trialing was past_due', 40),
    ('creation 10, update 30 past_due was active, update 20 was past_due', 20),
    ('creation 10, update 20 past_due, update 30 trialing', 30),
    ('creation 10, update 20 past_due, update 30 was quantity=1', null),
    ('creation 10, update 20 past_due, update 15', null),
    ('opening 10 active', 10),
    ('opening 10 past_due', null),
    ('opening 10 past_due, opening 30, opening 20', 20),
    ('creation 5, opening 10 incomplete, opening 20', 20),
    ('opening 10, opening 30 trialing, opening 20 unpaid', 30),
    ('opening 10, opening 30, opening 20 unpaid', 30),
    ('creation 10, opening 20', null),
    ('opening 10 past_due, opening 20, opening 30 unpaid', 20),
    ('opening 10 past_due, opening 20, opening 30 unpaid, opening 40', 40),
    ('creation 10 incomplete, update 30 was nothing, creation 20 incomplete', null),
    ('opening 5 unpaid, creation 20, opening 10 unpaid', null),
    ('opening 20, creation 10', null),
    ('opening 20, opening 10', 10),
    ('opening 10, ending 20', 10),
    ('ending 20, opening 10', 10),
    ('ending 20 past_due, opening 30 past_due, opening 40', 40),
    ('ending 20', null),
    ('creation 10, update 20 was trialing', null),
    ('creation 10, update 20 unpaid was past_due', null)
) as c (arriving, recovered);

-- A deletion is news, unless another one has told of the same end; so is a payment that was late.
select is(
  (
    select string_agg(
      trim_scale(extract(epoch from e.occurred_at) - 1800000000)::text,
      ' ' order by s.ordinality
    )
    from unnest(pg_temp.parse_all(c.arriving)) with ordinality as e,
      unnest(pg_temp.fold(array(
        select jsonb_populate_record(paid, '{"payment": {}}')
        from unnest(pg_temp.parse_all(c.arriving)) as paid
      ))) with ordinality as s
    where e.ordinality = s.ordinality and e.kind <> 'creation' and s.payment is not null
  ),
  c.told,
  'told of: ' || c.arriving
)
from (
  values
    ('ending 20, ending 30', null),
    ('opening 10, ending 20', '20'),
    ('ending 20, opening 30, ending 40', '40'),
    ('creation 10, deletion 20, deletion 30', '20'),
    ('creation 10, update 20 canceled, deletion 30', '30'),
    ('creation 10, deletion 20, update 30, deletion 40', '20 40'),
    -- It came back in between, whatever reports the second end besides.
    ('creation 10, deletion 20, update 30, update 40 canceled, deletion 40', '20 40'),
    ('opening 10, deletion 20, opening 30 past_due, opening 40 canceled, deletion 40', '20 40'),
    ('creation 10, deletion 20, update 40 canceled, update 30, deletion 40', '20 40'),
    ('creation 10, deletion 20, creation 30, update 40 canceled, deletion 50', '20 50'),
    ('creation 10, deletion 20, update - trialing, deletion 40', '20 40'),
    ('creation -, deletion 20, update - trialing, deletion 40', '20 40'),
    ('creation -, deletion 20, deletion 40', '20'),
    -- One end.
    ('creation 10, deletion 20, deletion 20', '20'),
    ('creation 10, deletion 21, deletion 20', '21'),
    ('creation 10, deletion 20, update 21 canceled, deletion 22', '20'),
    ('opening 10, deletion 20, opening 21 incomplete_expired, deletion 22', '20'),
    (
      'creation 10, deletion 20, update 30, deletion 20, update 40 canceled, deletion 40, deletion 41',
      '20 40'
    ),
    ('creation 10, update 30, deletion 20, deletion 21, deletion 40', '20 40'),
    -- The return is not known yet, or the end is no news any more.
    ('creation 10, deletion 20, deletion 40, update 30', '20'),
    ('creation 10, deletion 40, update 30, deletion 20', '40'),
    ('creation 10, deletion 20, update 30, update 50, deletion 40', '20'),
    -- Dodo sends two events of one end.
    ('opening 10, opening 20 canceled, deletion 20', '20'),
    ('opening 10, deletion 20, opening 20 canceled', '20'),
    ('creation 10, update 20 past_due, update 30, update 40', '30'),
    ('creation 10, update 20 unpaid, update 30 trialing, update 40 was unpaid', '40'),
    ('creation 10 incomplete, update 20', null),
    ('opening 10 unpaid, opening 20', '20')
) as c (arriving, told);

-- Calls may have different time zones.
create temporary table stored as
select ((s.step).record).*
from (
  select (pg_temp.steps(
    'creation 10, update 20 trial_end=3 was trial_end=2, update 20 trial_end=5 was trial_end=4'
  ))[3] as step
) as s;
set local timezone = 'Asia/Tokyo';
select is(
  (
    billing.next(null, s::billing.records, pg_temp.parse('update 20 trial_end=4 was trial_end=3'))
  ).outcome,
  'stale',
  'a time is the same in every time zone'
)
from (select jsonb_populate_record(null::billing.records, to_jsonb(stored)) as s from stored) as s;

-- Messages, and marks.
select results_eq(
  $$
    select s.error
    from unnest(pg_temp.steps(
      'update 5, creation 10 account=null, creation 10, update 20 provider=b, refund 20'
    )) as s
  $$,
  $$
    values
      ('No subscription sub is recorded.'),
      ('No account is known.'),
      (null),
      ('Subscription sub belongs to provider a, not b.'),
      ('No function applies events of type refund.')
  $$,
  'a message names what is wrong'
);
select is(
  ((pg_temp.steps('creation 10, update 20, deletion 30, creation 20, payment 40'))[5]).account_id,
  'A20',
  'a failed payment is of the account that the record has then'
);
select is(
  array(
    select (s.record).had_trial
    from unnest(pg_temp.steps(
      'creation 10, update 30 trial_end=null, update 20 trial_end=50, update 40 trial_end=null'
    )) as s
  ),
  array[false, false, true, true],
  'a trial is remembered, also one that is reported late'
);
select is_empty(
  $$
    select e.at
    from (
      select pg_temp.at(i * 86400.123457) as at, kind
      from generate_series(-9000, 25000, 7) as i,
        unnest(array['creation', 'update', 'deletion']) as kind
    ) as e
    where billing.time_of(billing.mark(jsonb_populate_record(
      null::billing.event,
      jsonb_build_object('occurred_at', e.at, 'kind', e.kind)
    ))) <> e.at
  $$,
  'until 2095, a mark has the exact time of its event, to the microsecond'
);

select * from finish();
rollback;
