/**
 * Rows 70 to 74: weak secrets, limits of the mail API, this project's commands,
 * and events of the other mode.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { edited } from "../support/edited.ts";
import { subscriptionEvent } from "../../scripts/events/event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { deliverPaced } from "../support/paced_delivery.ts";
import { answered, headerLines } from "../support/raw_request.ts";
import { startReceiver } from "../support/receiver.ts";
import { startScript } from "../support/run_script.ts";
import { rowCounts } from "../support/tables.ts";
import { signed } from "./body_checks.ts";
import { creation } from "./events.ts";
import { hostileProvider } from "./hostile_provider.ts";
import { misconfigured } from "./misconfigured.ts";
import { expectApplied, expectIgnored, expectRefused } from "./outcome.ts";
import { SECRETS } from "./secrets.ts";
import { signedHeaders } from "./signature.ts";
import { hexEndpoint, type Row, stripeEndpoint } from "./stage.ts";

const COUNT = 2_000;

const ALLOWED = 2;

const OWN_TIME_MS = (COUNT / ALLOWED) * 1_000;

export const ROWS_70_TO_74: readonly Row[] = [
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
    row: 71,
    input: "2,000 e-mails due at once, the mail API takes 2 a second",
    check: async ({ sql }) => {
      const { tookMs, rows, requests } = await deliverPaced(sql, {
        count: COUNT,
        allowed: ALLOWED,
      });
      assertEquals(rows, { "sent 1": COUNT });
      assert(
        tookMs < 1.2 * OWN_TIME_MS,
        `It took ${tookMs} ms of virtual time`,
      );
      const accepted = requests.filter(({ status }) => status === 200);
      const keys = new Set(accepted.map(({ key }) => key));
      assertEquals(keys.size, accepted.length, "A mail was sent twice");
    },
  },
  {
    row: 72,
    input:
      "control characters and escape sequences in what a provider's API answers",
    check: async () => {
      await using objects = hostileProvider("objects");
      await using errors = hostileProvider("errors");
      for (
        const [name, args, url, code] of [
          ["import", [], objects.url, 1],
          ["reconcile", [], objects.url, 1],
          ["reconcile", ["--json"], objects.url, 1],
          ["import", [], errors.url, 3],
          ["reconcile", ["--json"], errors.url, 3],
        ] as const
      ) {
        const result = await startScript(name, {
          args: ["--stripe-url", url, ...args],
        }).result;
        const what = `${name} ${args} ${url}`;
        const said = result.out + result.err;
        assertEquals(result.code, code, `${what}\n${said}`);
        assertMatch(said, /MARK/, `${what} says nothing of it: ${said}`);
        const found = /[^\n\u0020-\u007e\u00a0-\uffff]|[\u202a-\u202e]/.exec(
          said,
        );
        assertEquals(found, null, `${what}: ${JSON.stringify(said)}`);
        assertEquals(/^FORGED/m.test(said), false, `${what}: ${said}`);
        if ((args as readonly string[]).includes("--json") && code === 1) {
          assert(result.out.includes("\\u001b"));
          JSON.parse(result.out);
        }
      }
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
