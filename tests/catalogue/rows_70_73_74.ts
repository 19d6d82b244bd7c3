/**
 * Rows 70, 73 and 74: weak secrets, the local gateway, and events of the other
 * mode. without_functions.test.ts has 71 and 72.
 */
import { assert, assertEquals } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { edited } from "../support/edited.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { answered, headerLines } from "../support/raw_request.ts";
import { startReceiver } from "../support/receiver.ts";
import { rowCounts } from "../support/tables.ts";
import { signed } from "./body_checks.ts";
import { creation } from "./events.ts";
import { misconfigured } from "./misconfigured.ts";
import { expectApplied, expectIgnored, expectRefused } from "./outcome.ts";
import { SECRETS } from "./secrets.ts";
import { signedHeaders } from "./signature.ts";
import { hexEndpoint, type Row, stripeEndpoint } from "./stage.ts";

export const ROWS_70_73_74: readonly Row[] = [
  {
    row: 70,
    input:
      "a short secret, a part of a list, a placeholder, the local stack's, one for two",
    check: async (stage) => {
      const { PROVIDER_A_SIGNING_SECRET, PROVIDER_B_SIGNING_SECRET } =
        LOCAL_SIGNING_SECRETS;
      const short = "fewer than 16 characters";
      await Promise.all([
        misconfigured(stage, ["whsec_123456789", "123456789abcdef"], {
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
    row: 73,
    input: "a chunk line that ends in a bare LF, at the local gateway",
    check: async ({ sql, stripe, gatewayUrl }) => {
      const { pathname } = new URL(gatewayUrl);
      const body = JSON.stringify(
        subscriptionEvent("customer.subscription.created", {
          subscription: uniqueId("sub"),
        }),
      );
      const size = body.length.toString(16);
      const second =
        `POST ${pathname} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`;
      const before = await rowCounts(sql);
      for (
        const sent of [
          `0;\n\r\n${second}`,
          `${size}\r\n${body}\r\n0;\n\r\n${second}`,
          `${size};\n\r\n${body}\r\n0\r\n\r\n${second}`,
          `${size}\r\n${body}\n0\r\n\r\n${second}`,
          `${size}\r\n${body}\r\n0\r\nx: y\n\n${second}`,
        ]
      ) {
        const answer = await answered(gatewayUrl, {
          line: `POST ${pathname}`,
          headers: [
            "Transfer-Encoding: chunked",
            ...headerLines(signedHeaders(stripe, body)),
          ],
          body: sent,
        });
        assertEquals(answer.status, 400, sent);
        assertEquals(answer.body.includes("HTTP/1.1"), false, answer.body);
      }
      assertEquals(await rowCounts(sql), before, "Something was stored");
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
