/**
 * Rows 39 to 43: a valid signature over an event with fields that are missing,
 * bad or unknown.
 */
import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { edited } from "../support/edited.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  applied,
  assertKeptAsText,
  filed,
  filedWith,
  ignored,
  signed,
} from "./body_checks.ts";
import {
  creation,
  deletion,
  failedInvoice,
  ignoredEvent,
  update,
} from "./events.ts";
import { assertDiscreet, expectIgnored } from "./outcome.ts";
import { PAYLOAD_MARK } from "./secrets.ts";
import { endpoints, type Row } from "./stage.ts";

const PERIOD_END = "data.object.current_period_end";

const PLAN = "data.object.items.data.0.price.id";

const ACCOUNT = "data.object.metadata.accountId";

/** Missing, null, of another type, empty and blank. */
const NO_ID = [
  undefined,
  null,
  12,
  true,
  [],
  ["a"],
  {},
  { id: "x" },
  "",
  " \t",
];

const NO_TIME = [undefined, null, "2026", "1793700000", true, [], {}, ""];

/** The newest shape, with the fields where Stripe moved them. */
const moved = () => creation({ apiVersion: "2026-10-28.endive" });

const movedInvoice = () => failedInvoice({ apiVersion: "2026-10-28.endive" });

export const ROWS_39_TO_43: readonly Row[] = [
  {
    row: 39,
    input: "1e400, 1e100000 as a period end",
    check: async (stage) => {
      for (const number of ["1e400", "1e100000", "-1e400", "1e308", "1e-400"]) {
        const event = edited(creation(), { [PERIOD_END]: PAYLOAD_MARK });
        const text = JSON.stringify(event).replace(
          `"current_period_end":"${PAYLOAD_MARK}"`,
          `"current_period_end":${number}`,
        );
        const row = await filed(stage, text, { as: event.id });
        assert(String(row.error).includes(PERIOD_END));
        // Nothing turned it into null on the way, or into another number.
        const { current_period_end: kept } = typeof row.payload === "string"
          ? { current_period_end: number }
          : (await stage.sql`
            select payload #>> '{data,object,current_period_end}' as current_period_end
            from billing.failed_events where event_id = ${event.id}`)[0]!;
        if (typeof row.payload === "string") assertKeptAsText(row, text);
        else {assert(
            /^-?10{308,}$|^0\.0+1$|^0\.0+$/.test(String(kept)),
            `${kept}`,
          );}
      }
    },
  },
  {
    row: 40,
    input: "a used integer over 2^53, or a fraction",
    check: async (stage) => {
      const values = [2 ** 53 + 2, 1e21, 1_793_700_000.5, 1e9 + 1e-6];
      for (const make of [creation, update]) {
        await filedWith(stage, make, { path: PERIOD_END, values });
      }
      await filedWith(stage, moved, {
        path: "data.object.items.data.0.current_period_end",
        values,
      });
      await filedWith(stage, deletion, { path: "created", values });
      const event = creation();
      const text = JSON.stringify(event)
        .replace(`"created":${event.created}`, `"created":9007199254740993`);
      await filed(stage, text, { as: event.id });
      const [row] = await stage.sql`
        select payload ->> 'created' as created
        from billing.failed_events where event_id = ${event.id}`;
      assertEquals(row?.created, "9007199254740993");
    },
  },
  {
    row: 41,
    input: "each required field missing, null, of another type, empty, blank",
    check: async (stage) => {
      const all = [creation, moved, update, deletion, failedInvoice];
      for (const make of all) {
        await filedWith(stage, make, { path: "id", values: NO_ID });
        for (const value of NO_ID) {
          const event = edited(make(), { type: value });
          const row = await filed(stage, event, { as: event.id });
          assert(String(row.error).startsWith("type"), `${row.error}`);
        }
        await filedWith(stage, make, {
          path: "data",
          values: [undefined, null, "", []],
        });
        await filedWith(stage, make, {
          path: "data.object",
          values: [undefined, null, "", "x", 1],
        });
      }
      for (const make of [creation, moved, update, deletion]) {
        await filedWith(stage, make, { path: "data.object.id", values: NO_ID });
      }
      for (const make of [creation, moved, update]) {
        await filedWith(stage, make, { path: PLAN, values: NO_ID });
        for (
          const [path, values] of [
            ["data.object.items.data.0.price", [undefined, null, "price_1"]],
            ["data.object.items.data.0", [null, "item"]],
            ["data.object.items.data", [undefined, null, [], {}, ""]],
            ["data.object.items", [undefined, null, [], ""]],
          ] as const
        ) {
          await filedWith(stage, make, {
            path,
            values,
            says: "data.object.items",
          });
        }
      }
      await filedWith(stage, creation, { path: ACCOUNT, values: NO_ID });
      await filedWith(stage, creation, {
        path: "data.object.metadata",
        values: [undefined, null, "", []],
      });
      await filedWith(stage, update, {
        path: "data.object.status",
        values: NO_ID,
      });
      for (const make of [creation, update]) {
        await filedWith(stage, make, { path: PERIOD_END, values: NO_TIME });
      }
      await filedWith(stage, moved, {
        path: "data.object.items.data.0.current_period_end",
        values: NO_TIME,
        says: "current_period_end",
      });
      // An invoice without a subscription is a one-off, and no failure.
      const noSubscription = NO_ID.slice(2);
      await filedWith(stage, failedInvoice, {
        path: "data.object.subscription",
        values: noSubscription.filter((value) =>
          !(value as { id?: string })?.id
        ),
      });
      await filedWith(stage, movedInvoice, {
        path: "data.object.parent.subscription_details.subscription",
        values: ["", " ", 12, {}],
      });
    },
  },
  {
    row: 42,
    input: "an unknown event type, with any data at all",
    check: async (stage) => {
      const { receiver } = stage.stripe;
      const before = ignoredLines(receiver.output());
      for (const endpoint of endpoints(stage)) {
        await expectIgnored(stage, {
          receiver: endpoint.receiver,
          send: signed(endpoint, ignoredEvent()),
        });
      }
      const type = `charge.unheard_of_${uniqueId("t")}`;
      const bodies = [
        { type: "customer.subscription.Created", data: PAYLOAD_MARK },
        { type: "customer.subscription.created ", data: PAYLOAD_MARK },
        { type: `\n{"level":"error"}\0\ud800`, data: PAYLOAD_MARK },
        { type: "__proto__", data: PAYLOAD_MARK },
        { type: "toString", data: PAYLOAD_MARK },
        { type },
        { type, id: null, data: null, created: "never" },
        { type, id: "x".repeat(10_000), data: PAYLOAD_MARK },
        { type, id: "evt_\n{}", data: { object: [] } },
      ];
      for (const body of bodies) await ignored(stage, body);
      // Lines of one second are summed up in one, which tells how many.
      const logged = () => ignoredLines(receiver.output()) - before;
      const sent = 2 + bodies.length;
      await waitUntil(() => logged() >= sent, { timeoutMs: HANG_LIMIT_MS });
      assertEquals(logged(), sent);
      await receiver.logged((line) => line.type === type);
      assertDiscreet(receiver.output());
    },
  },
  {
    row: 43,
    input: "unknown extra fields",
    check: async (stage) => {
      const more = { "data.object.more": { a: [PAYLOAD_MARK] }, more: [1, {}] };
      const event = edited(creation(), {
        ...more,
        "data.object.metadata.more": 1,
        "data.object.items.data.0.price.more": null,
        "data.object.items.data.1": { price: 12 },
      });
      await applied(stage, event);
      const { id } = event.data.object;
      // Nonsense in fields that nobody reads.
      await applied(
        stage,
        edited(update({ subscription: id }), {
          ...more,
          "data.object.metadata": "nonsense",
          "data.previous_attributes": { status: {}, items: "nonsense" },
          livemode: "nonsense",
        }),
      );
      await applied(
        stage,
        edited(failedInvoice({ subscription: id }), {
          "data.object.lines": null,
          "data.object.id": 12,
        }),
      );
      await applied(
        stage,
        edited(deletion({ subscription: id }), {
          ...more,
          "data.object.items": null,
          "data.object.status": 12,
        }),
      );
    },
  },
];

/** How many events the log calls ignored. */
function ignoredLines(output: string): number {
  return output.split("\n")
    .filter((line) => line.includes('"event ignored"'))
    .reduce((sum, line) => sum + (JSON.parse(line).lines ?? 1), 0);
}
