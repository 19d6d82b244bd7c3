/**
 * What a notification says about the payment, for tests of what is sent.
 *
 * @module
 */

/** Of an event that states everything. */
export const STATED = {
  hosted_invoice_url: "https://pay.example.com/in_1?a=1&b=2",
  amount_due: 1900,
  currency: "eur",
  attempt_count: 2,
  next_payment_attempt: "2026-05-03T23:30:00+00:00",
};

/** Of an event that states nothing of it. */
export const NOT_STATED = {
  hosted_invoice_url: null,
  amount_due: null,
  currency: null,
  attempt_count: null,
  next_payment_attempt: null,
};
