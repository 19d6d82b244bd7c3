-- What is failing: health, then all open failures, the most frequent error first.
select * from billing.health;

select * from billing.open_failures;
