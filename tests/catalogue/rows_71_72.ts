/**
 * Rows 71 and 72, which no served function has a part in: limits of the mail
 * API, and what this project's commands print.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type postgres from "postgres";
import { deliverPaced } from "../support/paced_delivery.ts";
import { startScript } from "../support/run_script.ts";
import { hostileProvider } from "./hostile_provider.ts";
import type { CatalogueRow } from "./row.ts";

const COUNT = 2_000;

const ALLOWED = 2;

const OWN_TIME_MS = (COUNT / ALLOWED) * 1_000;

export const ROWS_71_72: readonly CatalogueRow<{ sql: postgres.Sql }>[] = [
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
];
