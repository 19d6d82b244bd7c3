/**
 * Rows 44 to 48: a valid signature over an event with values that are too long,
 * hostile or out of range.
 */
import { assert, assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { subscriptionRecord } from "../support/tables.ts";
import { applied, filedWith } from "./body_checks.ts";
import { creation, deletion, failedInvoice, update } from "./events.ts";
import { unixNow } from "./signature.ts";
import type { Row } from "./stage.ts";

const PERIOD_END = "data.object.current_period_end";

const PLAN = "data.object.items.data.0.price.id";

const ACCOUNT = "data.object.metadata.accountId";

const YEAR_2000 = 946_684_800;

const YEAR_2200 = 7_258_118_400;

/** The default of SIGNATURE_TOLERANCE_SECONDS. */
const TOLERANCE_SECONDS = 300;

/** The newest shape, with the fields where Stripe moved them. */
const moved = () => creation({ apiVersion: "2026-10-28.endive" });

export const ROWS_44_TO_48: readonly Row[] = [
  {
    row: 44,
    input: "an id over 255 characters",
    check: async (stage) => {
      const long = "i".repeat(256);
      await filedWith(stage, creation, { path: "id", values: [long] });
      for (const path of ["data.object.id", ACCOUNT, PLAN]) {
        await filedWith(stage, creation, {
          path,
          values: [long, "i".repeat(100_000)],
        });
      }
      await filedWith(stage, update, {
        path: "data.object.status",
        values: [long],
      });
      await filedWith(stage, failedInvoice, {
        path: "data.object.subscription",
        values: [long, { id: long }],
      });
      const most = uniqueId("evt").padEnd(255, "i");
      await applied(
        stage,
        creation({
          id: most,
          subscription: uniqueId("sub").padEnd(255, "i"),
          account: "a".repeat(255),
          plan: "p".repeat(255),
        }),
      );
    },
  },
  {
    row: 45,
    input: "control characters or line breaks in an id",
    check: async (stage) => {
      const forged = '\n{"level":"error","message":"forged"}';
      const values = [
        ...["\n", "\r\n", "\t", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u2029"],
        forged,
      ].map((text) => `in_${text}_it`);
      for (const path of ["id", "data.object.id", ACCOUNT, PLAN]) {
        await filedWith(stage, creation, { path, values });
      }
      await filedWith(stage, failedInvoice, {
        path: "data.object.subscription",
        values,
      });
      const lines = stage.stripe.receiver.output().split("\n");
      const messages = lines.filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line).message);
      assert(!messages.includes("forged"));
      assert(
        !lines.some((line) =>
          line.startsWith('{"level":"error","message":"forged"')
        ),
      );
    },
  },
  {
    row: 46,
    input: "a period end before 2000 or after 2200",
    check: async (stage) => {
      const values = [
        YEAR_2000 - 1,
        YEAR_2200 + 1,
        0,
        -1,
        unixNow() * 1_000,
      ];
      for (const make of [creation, update]) {
        await filedWith(stage, make, { path: PERIOD_END, values });
      }
      await filedWith(stage, moved, {
        path: "data.object.items.data.0.current_period_end",
        values,
      });
      for (const end of [YEAR_2000, YEAR_2200]) {
        const event = edited(creation(), { [PERIOD_END]: end });
        await applied(stage, event);
        const { id } = event.data.object;
        const record = await subscriptionRecord(stage.sql, id);
        assertEquals(record?.current_period_end, new Date(end * 1_000));
      }
    },
  },
  {
    row: 47,
    input:
      "created before 2000, further ahead than the tolerance, or no integer",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      await applied(stage, creation({ subscription }));
      const makers = [
        creation,
        () => update({ subscription }),
        () => deletion({ subscription }),
        () => failedInvoice({ subscription }),
      ];
      const values = [
        ...[
          YEAR_2000 - 1,
          0,
          -1,
          unixNow() + TOLERANCE_SECONDS + 60,
          YEAR_2200,
        ],
        ...[unixNow() * 1_000, unixNow() + 0.5, String(unixNow()), null, true],
      ];
      for (const make of makers) {
        await filedWith(stage, make, { path: "created", values });
      }
      for (const created of [YEAR_2000, unixNow() + TOLERANCE_SECONDS - 60]) {
        await applied(stage, edited(creation(), { created }));
      }
      const record = await subscriptionRecord(stage.sql, subscription);
      assertEquals(record?.status, "active");
    },
  },
  {
    row: 48,
    input: "SQL, HTML, template syntax in strings",
    check: async (stage) => {
      const strings = [
        "'; drop table billing.subscriptions; --",
        '" or 1=1 /*',
        "$1 $$ \\ \\' %s {}",
        '<script>alert(1)</script>&amp;"',
        "${process.env.HOME} {{7*7}} #{7*7} <%= 7 %>",
        "../../etc/passwd",
        "\u202eabc \u00e9 \u{1f600}",
      ];
      for (const text of strings) {
        const subscription = `${uniqueId("sub")} ${text}`;
        const id = `${uniqueId("evt")} ${text}`;
        const values = { account: text, plan: text };
        await applied(stage, creation({ id, subscription, ...values }));
        await applied(
          stage,
          update({ subscription, status: text, plan: text }),
        );
        const record = await subscriptionRecord(stage.sql, subscription);
        assertEquals(
          [record?.id, record?.account_id, record?.plan_id, record?.status],
          [subscription, text, text, text],
        );
        const invoice = failedInvoice({ subscription });
        const { notifications } = await applied(stage, invoice);
        assertEquals(notifications.map((row) => row.account_id), [text]);
      }
    },
  },
];
