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
        // It is for the notification alone, which the histories do not check.
        if (read.payment) read.payment = {};
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
