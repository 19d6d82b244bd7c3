/** Rows 72 and 73: this project's own commands, and its local gateway. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { subscriptionEvent } from "../../scripts/events/event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startScript } from "../support/run_script.ts";
import { answered } from "../support/raw_request.ts";
import { rowCounts } from "../support/tables.ts";
import { hostileProvider } from "./hostile_provider.ts";
import type { Row } from "./stage.ts";
import { signedHeaders } from "./signature.ts";

export const ROWS_72_TO_73: readonly Row[] = [
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
            ...Object.entries(signedHeaders(stripe, body))
              .map(([name, value]) => `${name}: ${value}`),
          ],
          body: sent,
        });
        assertEquals(answer.status, 400, sent);
        assertEquals(answer.body.includes("HTTP/1.1"), false, answer.body);
      }
      assertEquals(await rowCounts(sql), before, "Something was stored");
    },
  },
];
