-- Settle a failure that needs no applying any more. It opens again by itself
-- if the event fails again.
select public.resolve_failed_event('<event id>', '<reason>', '<your name>');
