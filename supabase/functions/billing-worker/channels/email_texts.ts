/** The words of the e-mails to accounts. To change them or the language, change this file. */
import type { Notification } from "./channel.ts";
import { formatAmount } from "./format_amount.ts";

export type EmailTexts = ReturnType<typeof emailTexts>;

/**
 * Returns the words for a notification. They claim nothing that the event did not state,
 * and do not depend on the time: Resend refuses a repeated attempt with other words.
 */
export function emailTexts(notification: Notification) {
  const { hosted_invoice_url: url, invoice_id, subscription_id } = notification;
  const { subject, paragraphs, label } = words(notification);
  return {
    /** One line, as Resend refuses a line break in it. */
    subject,
    paragraphs,
    link: url && label ? { label, url } : undefined,
    /** Below the rest, in small letters. */
    footer: [
      ...(invoice_id ? [`Invoice: ${invoice_id}`] : []),
      `Subscription: ${subscription_id}`,
    ].join(", "),
  };
}

/** Returns the words for a kind; with a `label` if a link is useful. */
function words(
  notification: Notification,
): { subject: string; paragraphs: string[]; label?: string } {
  const amount = amountOf(notification);
  const url = notification.hosted_invoice_url;

  switch (notification.kind) {
    case "trial_ending": {
      const day = formatDate(notification.trial_end ?? notification.created_at);
      const subject = `Your trial ends on ${day}`;
      return {
        subject,
        paragraphs: [
          `${subject}.`,
          "Unless you have canceled it, your subscription then continues, and we charge its payment method.",
        ],
      };
    }

    case "action_required":
      return {
        subject: `Please confirm your payment${amount}`,
        paragraphs: [
          `Your bank asks you to confirm the payment${amount} for your subscription.`,
          url
            ? "You can confirm it here:"
            : "Please open your billing page to confirm it.",
        ],
        label: "Confirm the payment",
      };

    case "recovered": {
      const subject = "Your subscription is active again";
      return { subject, paragraphs: [`${subject}. You need not do anything.`] };
    }

    case "ended": {
      const more = "We will not charge you for it any more.";
      if (notification.still_has_access) {
        const subject = "One of your subscriptions has ended";
        return {
          subject,
          paragraphs: [`${subject}. ${more}`, "You still have access."],
        };
      }
      const subject = "Your subscription has ended";
      return {
        subject,
        paragraphs: [`${subject}, and your access with it. ${more}`],
      };
    }

    case "payment_failed":
      return {
        subject: `Your payment${amount} failed`,
        paragraphs: [
          `We could not collect the payment${amount} for your subscription.`,
          ...nextAttempt(notification),
          url
            ? "You can pay the invoice now:"
            : "Please check your payment method.",
        ],
        label: "Pay the invoice",
      };
  }
}

function amountOf({ amount_due, currency }: Notification): string {
  return typeof amount_due === "number" && currency
    ? ` of ${formatAmount(amount_due, currency)}`
    : "";
}

function nextAttempt(
  { attempt_count, next_payment_attempt }: Notification,
): string[] {
  if (next_payment_attempt) {
    return [`We will try again on ${formatDate(next_payment_attempt)}.`];
  }
  return typeof attempt_count === "number"
    ? ["No further attempt is scheduled."]
    : [];
}

/** Returns a date such as `3 May 2026 (UTC)`. */
function formatDate(time: string): string {
  const day = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  }).format(new Date(time));
  return `${day} (UTC)`;
}
