/** Rows 68 to 74: what waits, weak secrets, and events of the other mode. */
import { assert, assertEquals } from "@std/assert";
import { storedEvent } from "../support/tables.ts";
import { assertDiscreet } from "./outcome.ts";
import type { Row } from "./stage.ts";

export const ROWS_68_TO_74: readonly Row[] = [
  {
    row: 68,
    input: "the database's API hangs, hundreds of deliveries",
    check: async ({ sql, hungDeliveries: { answers, receiver } }) => {
      const deliveries = await answers;
      const statuses = new Set(deliveries.map(({ status }) => status));
      assertEquals([...statuses], [503]);
      assert(deliveries.every(({ retryAfter }) => Number(retryAfter) > 0));
      const longest = Math.max(...deliveries.map(({ took }) => took));
      assert(longest < 10_000, `somebody waited for ${longest} ms`);
      const ids = new Set(deliveries.map(({ eventId }) => eventId));
      for (const line of receiver.output().split("\n")) {
        const { message, event_id, status } = JSON.parse(line);
        if (message === "delivery failed" && status === 503) {
          ids.delete(event_id);
        }
      }
      assertEquals(ids.size, 0, "events without a line in the log");
      for (const { eventId } of deliveries.slice(0, 3)) {
        const { ledger, failures } = await storedEvent(sql, eventId);
        assertEquals([ledger, failures], [[], []]);
      }
      assertDiscreet(receiver.output());
    },
  },
];
