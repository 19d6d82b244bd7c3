import { isUnixSeconds, isWholeNumber, MAX_INTEGER } from "./fields.ts";

const MAX_URL_LENGTH = 2_048;

/** What an account needs to know to act on a failed payment. */
export interface PaymentDetails {
  /** Where the invoice can be paid; https only. */
  readonly hosted_invoice_url?: string | undefined;
  /** In the smallest unit of the currency, such as cents. */
  readonly amount_due?: number | undefined;
  /** Three lower-case letters. */
  readonly currency?: string | undefined;
  /** How often the provider has tried to collect the payment. */
  readonly attempt_count?: number | undefined;
  /** In ISO 8601; undefined if the provider does not try again. */
  readonly next_payment_attempt?: string | undefined;
}

/** The fields of an invoice that are read here, unchecked. */
export type StatedDetails = Readonly<
  Partial<Record<keyof PaymentDetails, unknown>>
>;

/**
 * Returns what an invoice states about its payment. A field that is missing or
 * odd is left out, because the notification matters more than its details.
 *
 * If the next attempt is missing or odd, the number of attempts is left out too:
 * attempts without a next one mean that there is none, and nobody knows that.
 */
export function paymentDetails(invoice: StatedDetails): PaymentDetails {
  const next = invoice.next_payment_attempt;
  return {
    hosted_invoice_url: httpsUrl(invoice.hosted_invoice_url),
    amount_due: wholeNumber(invoice.amount_due, Number.MAX_SAFE_INTEGER),
    currency: currencyCode(invoice.currency),
    attempt_count: next === null || isUnixSeconds(next)
      ? wholeNumber(invoice.attempt_count, MAX_INTEGER)
      : undefined,
    next_payment_attempt: isUnixSeconds(next)
      ? new Date(next * 1000).toISOString()
      : undefined,
  };
}

/**
 * Returns a link that may stand in a mail: https, without a user name or password
 * that would pass for a host, and without characters that are not seen.
 */
function httpsUrl(value: unknown): string | undefined {
  if (typeof value !== "string" || value.length > MAX_URL_LENGTH) return;
  if (/[\s\p{C}]/u.test(value) || !URL.canParse(value)) return;
  const { protocol, username, password } = new URL(value);
  return protocol === "https:" && username === "" && password === ""
    ? value
    : undefined;
}

function wholeNumber(value: unknown, most: number): number | undefined {
  return isWholeNumber(value, most) ? value : undefined;
}

function currencyCode(value: unknown): string | undefined {
  return typeof value === "string" && /^[a-z]{3}$/i.test(value)
    ? value.toLowerCase()
    : undefined;
}
