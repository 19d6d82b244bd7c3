/**
 * The properties give the database what the receiver reads from the bodies that
 * Stripe would send.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { eventBody } from "../support/histories/event_body.ts";
import { history } from "../support/histories/history.ts";
import { freshSeed } from "../support/random.ts";
import { wireEvent } from "../support/histories/wire_event.ts";

/** These go into the notification alone. */
const IN_NOTIFICATION = [
  "invoice_id",
  "hosted_invoice_url",
  "amount_due",
  "currency",
  "attempt_count",
  "next_payment_attempt",
];

Deno.test("wireEvent() makes what parseEvent() reads out of eventBody()", () => {
  const seed = freshSeed();
  console.log(`seed ${seed}`);
  fc.assert(
    fc.property(history, ({ events }) => {
      for (const [index, event] of events.entries()) {
        const text = JSON.stringify(eventBody(event));
        const parsed = parseEvent(text, {
          nowSeconds: event.created,
          toleranceSeconds: 0,
        });
        const read = JSON.parse(
          JSON.stringify(parsed.handled && parsed.event),
        );
        for (const name of IN_NOTIFICATION) delete read[name];
        const wire = JSON.parse(JSON.stringify(wireEvent(event, index)));
        assertEquals(
          read,
          Object.fromEntries(
            Object.keys(read).map((name) => [name, wire[name]]),
          ),
        );
      }
    }),
    { seed, numRuns: 300 },
  );
});
