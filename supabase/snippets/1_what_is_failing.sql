-- What is failing: health first, then everything that is open, worst first.
select * from public.billing_health;

select * from public.open_failures;
