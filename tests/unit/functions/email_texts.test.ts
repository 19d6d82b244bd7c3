import { assert, assertEquals } from "@std/assert";
import type { Notification } from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { NOT_STATED, STATED } from "../../support/payment.ts";

function notification(details: Partial<Notification>): Notification {
  return {
    id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
    provider: "a",
    event_id: "evt_1",
    account_id: "acc_1",
    subscription_id: "sub_1",
    invoice_id: "in_1",
    created_at: "2026-05-01T06:24:03.113987+00:00",
    ...NOT_STATED,
    ...details,
  };
}

Deno.test("emailTexts() says what failed, how much, when it is tried again, and where to pay", () => {
  assertEquals(emailTexts(notification(STATED)), {
    subject: "Your payment of €19.00 failed",
    paragraphs: [
      "We could not collect the payment of €19.00 for your subscription.",
      "We will try again on 3 May 2026 (UTC).",
      "You can pay the invoice now:",
    ],
    link: { label: "Pay the invoice", url: STATED.hosted_invoice_url },
    footer: "Invoice: in_1, Subscription: sub_1",
  });
});

Deno.test("emailTexts() writes the day in UTC, whatever the time zone of the machine", () => {
  const before = Deno.env.get("TZ");
  try {
    for (const zone of ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]) {
      Deno.env.set("TZ", zone);
      for (
        const next of [STATED.next_payment_attempt, "2026-05-04T00:30:00+02:00"]
      ) {
        const texts = emailTexts(notification({ next_payment_attempt: next }));
        assertEquals(
          texts.paragraphs[1],
          "We will try again on 3 May 2026 (UTC).",
        );
      }
    }
  } finally {
    if (before === undefined) Deno.env.delete("TZ");
    else Deno.env.set("TZ", before);
  }
});

Deno.test("emailTexts() says that there is no next attempt", () => {
  const last = { ...STATED, next_payment_attempt: null };
  assertEquals(emailTexts(notification(last)).paragraphs, [
    "We could not collect the payment of €19.00 for your subscription.",
    "No further attempt is scheduled.",
    "You can pay the invoice now:",
  ]);
});

Deno.test("emailTexts() claims nothing that is not stated", () => {
  const unknown = {
    subject: "Your payment failed",
    paragraphs: [
      "We could not collect the payment for your subscription.",
      "Please check your payment method.",
    ],
    link: undefined,
    footer: "Subscription: sub_1",
  };
  assertEquals(emailTexts(notification({ invoice_id: null })), unknown);
});

Deno.test("emailTexts() names no amount without its currency", () => {
  for (
    const part of [{ amount_due: 1900 }, { currency: "eur" }, {
      amount_due: 1900,
      currency: "",
    }]
  ) {
    assertEquals(
      emailTexts(notification(part)).subject,
      "Your payment failed",
    );
  }
});

Deno.test("emailTexts() has a subject of one line, whatever the IDs say", () => {
  const hostile = "evil\r\nBcc: everyone@example.com";
  const { subject } = emailTexts(notification({
    ...STATED,
    account_id: hostile,
    subscription_id: hostile,
    invoice_id: hostile,
    event_id: hostile,
  }));
  assert(/^[^\p{C}\u2028\u2029]+$/u.test(subject), subject);
});
