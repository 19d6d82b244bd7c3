import { assertEquals } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { lacksAccountId } from "../../../supabase/functions/_shared/billing/formats/stripe.ts";
import { isUnmapped } from "../../../supabase/functions/_shared/billing/parse_event.ts";
import { edited } from "../../support/edited.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";
import { withoutAccount } from "../../support/without_account.ts";

const SUBSCRIPTION_EVENTS = [
  "customer.subscription.created",
  "customer.subscription.updated",
  "customer.subscription.deleted",
] as const;

for (const apiVersion of API_VERSIONS) {
  for (const type of SUBSCRIPTION_EVENTS) {
    Deno.test(`lacksAccountId() finds whether ${type} of ${apiVersion} has an account`, () => {
      const event = subscriptionEvent(type, { apiVersion });
      assertEquals(lacksAccountId(event), false);
      assertEquals(lacksAccountId(withoutAccount(event)), true);
    });
  }

  Deno.test(`lacksAccountId() finds the account of an invoice of ${apiVersion} at any place`, () => {
    const invoice = invoiceEvent({ apiVersion });
    assertEquals(lacksAccountId(invoice), false);
    const none = withoutAccount(invoice);
    assertEquals(lacksAccountId(none), true);
    const metadata = { accountId: "acc_1" };
    const places: Record<string, unknown>[] = [
      { "data.object.metadata": metadata },
      { "data.object.subscription": { id: "sub_1", metadata } },
      { "data.object.subscription_details": { metadata } },
      { "data.object.parent": { subscription_details: { metadata } } },
      { "data.object.lines.data.0.metadata": metadata },
    ];
    for (const place of places) {
      assertEquals(lacksAccountId(edited(none, place)), false);
    }
  });
}

Deno.test("lacksAccountId() takes null and blank for none, and what is malformed for one", () => {
  const event = subscriptionEvent("customer.subscription.created");
  const judged = (metadata: unknown) =>
    lacksAccountId(edited(event, { "data.object.metadata": metadata }));
  for (const accountId of [undefined, null, "", "  "]) {
    assertEquals(judged({ accountId }), true, `${accountId}`);
  }
  for (const metadata of [undefined, null, {}, { accountid: "acc_1" }]) {
    assertEquals(judged(metadata), true, JSON.stringify(metadata));
  }
  for (const accountId of [7, "a\nb", "x".repeat(256), {}, [], false]) {
    assertEquals(judged({ accountId }), false, `${accountId}`);
  }
  for (const metadata of [[], "acc_1", 7]) {
    assertEquals(judged(metadata), false, JSON.stringify(metadata));
  }
});

Deno.test("lacksAccountId() says nothing of what is no event", () => {
  for (const body of [null, 1, "x", [], {}, { data: null }, { data: {} }]) {
    assertEquals(lacksAccountId(body), false, JSON.stringify(body));
  }
});

Deno.test("isUnmapped() means creations that are invalid and events that are unknown, no others", () => {
  const failed = (code: ErrorCode, event: object) =>
    isUnmapped(new DeliveryError(code, ""), JSON.stringify(event));
  const [creation, update] = SUBSCRIPTION_EVENTS.map((type) =>
    withoutAccount(subscriptionEvent(type))
  ) as [object, object];
  assertEquals(failed("event_invalid", creation), true);
  assertEquals(failed("event_invalid", update), false);
  assertEquals(failed("subscription_unknown", update), true);
  for (
    const code of [
      "creation_pending",
      "subscription_of_other_provider",
      "database_unavailable",
      "apply_failed",
      "internal_error",
      "body_not_json",
    ] as const
  ) {
    assertEquals(failed(code, creation), false, code);
    assertEquals(failed(code, update), false, code);
  }
});
