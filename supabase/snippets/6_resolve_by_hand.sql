-- Resolves a failure without applying the event. It reopens if the event fails
-- again.
select billing.resolve_failed_event('<event id>', '<reason>', '<your name>');

-- If that was a mistake.
select billing.reopen_failed_event('<event id>');
