/** Rows 68 to 74: what waits, weak secrets, and events of the other mode. */
import { assert, assertEquals } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { edited } from "../../scripts/events/edited.ts";
import { startReceiver } from "../support/receiver.ts";
import { storedEvent } from "../support/tables.ts";
import { signed } from "./body_checks.ts";
import { creation } from "./events.ts";
import { misconfigured } from "./misconfigured.ts";
import {
  assertDiscreet,
  expectApplied,
  expectIgnored,
  expectRefused,
} from "./outcome.ts";
import { SECRETS } from "./secrets.ts";
import { hexEndpoint, type Row, stripeEndpoint } from "./stage.ts";

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
      const lines = receiver.output().split("\n");
      for (const line of lines.filter((line) => line.startsWith("{"))) {
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
        ], { says: "share a secret" }),
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
  {
    row: 74,
    input: "an event of the other mode, where PROVIDER_A_MODE says which",
    check: async (stage) => {
      await using receiver = await startReceiver({
        env: {
          PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
          PROVIDER_A_MODE: "live",
          PROVIDER_B_SIGNING_SECRET: SECRETS["hmac-sha256-hex"],
          PROVIDER_B_MODE: "test",
        },
      });
      const live = stripeEndpoint(receiver);
      const test = hexEndpoint(receiver);
      for (
        const [endpoint, livemode] of [[live, false], [test, true]] as const
      ) {
        const event = edited(creation(), { livemode });
        const broken = edited(creation(), { livemode, "data.object": null });
        for (const one of [event, broken]) {
          const send = signed(endpoint, one);
          await expectIgnored(stage, { receiver, send });
        }
        // Lines of a kind are summed up, so not each names its event.
        const line = await receiver.logged(({ message, provider }) =>
          message === "event of the other mode ignored" &&
          provider === endpoint.provider
        );
        assertEquals(line.level, "info");
      }
      for (
        const [endpoint, livemode] of [[live, true], [test, false]] as const
      ) {
        for (const says of [livemode, undefined]) {
          const event = edited(creation(), { livemode: says });
          const send = signed(endpoint, event);
          await expectApplied(stage, { receiver, send, event });
        }
      }
      await using faulty = await startReceiver({
        env: {
          PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
          PROVIDER_A_MODE: "production",
        },
      });
      await expectRefused(stage, {
        status: 500,
        code: "provider_misconfigured",
        receiver: faulty,
        send: signed(stripeEndpoint(faulty), creation()),
      });
      const atStart = await faulty.logged(({ provider }) => provider === "a");
      assert(String(atStart.error).includes("PROVIDER_A_MODE must be one of"));
    },
  },
];
