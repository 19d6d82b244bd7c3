/** Rows 68 to 74: what waits, weak secrets, and events of the other mode. */
import { assert, assertEquals } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/stack/environment.ts";
import { storedEvent } from "../support/tables.ts";
import { misconfigured } from "./misconfigured.ts";
import { assertDiscreet } from "./outcome.ts";
import { type Row, SECRETS } from "./stage.ts";

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
  {
    row: 70,
    input:
      "a short secret, a part of a list, a placeholder, the local stack's, one for two",
    check: async (stage) => {
      const { PROVIDER_A_SIGNING_SECRET, PROVIDER_B_SIGNING_SECRET } =
        LOCAL_SIGNING_SECRETS;
      const short = "fewer than 16 characters";
      await Promise.all([
        misconfigured(stage, ["whsec_123456789abcdef", "123456789abcdef"], {
          says: short,
        }),
        misconfigured(stage, [
          `x,${SECRETS.stripe}`,
          `${SECRETS["hmac-sha256-hex"]},Zq81`,
        ], { says: short }),
      ]);
      await Promise.all([
        misconfigured(stage, ["whsec_...", "..."], { says: "placeholder" }),
        misconfigured(stage, [
          SECRETS.stripe,
          `${SECRETS["hmac-sha256-hex"]},${SECRETS.stripe}`,
        ], { says: "in common" }),
      ]);
      await misconfigured(stage, [
        PROVIDER_A_SIGNING_SECRET,
        PROVIDER_B_SIGNING_SECRET,
      ], {
        says: "the local stack's secret",
        env: { SUPABASE_SECRET_KEYS: '{"default":"sb_secret_of_a_project"}' },
      });
    },
  },
];
