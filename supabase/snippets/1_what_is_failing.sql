-- What is failing: health, then all open failures, the most frequent error first.
select * from public.billing_health;

select * from public.open_failures;
