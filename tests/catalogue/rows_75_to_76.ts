/**
 * Rows 75 and 76: a valid signature over an event that reports odd values, and
 * over a creation that does not say whose it is.
 */
import { assert, assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { applied, filed } from "./body_checks.ts";
import { creation, update } from "./events.ts";
import type { Row, Stage } from "./stage.ts";

const NO_TEXT = [
  undefined,
  null,
  12,
  true,
  [],
  {},
  "",
  " ",
  "a\0b",
  "a\nb",
  "\ud800",
  "x".repeat(256),
];
const NO_TIME = [
  undefined,
  null,
  "1793700000",
  true,
  {},
  -1,
  0,
  1.5,
  2 ** 53,
  1_793_700_000_000,
];
const NO_QUANTITY = [undefined, null, "1", true, {}, -1, 1.5, 2 ** 31];

/** By the record's column: where its value is, and what is none. */
const ODD = {
  customer_id: [["customer", NO_TEXT], [
    "customer",
    NO_TEXT.map((id) => ({ id })),
  ]],
  quantity: [["items.data.0.quantity", NO_QUANTITY]],
  cancel_at: [["cancel_at", NO_TIME], ["cancel_at_period_end", [
    null,
    "true",
    1,
    {},
  ]]],
  trial_end: [["trial_end", NO_TIME]],
  paused: [["pause_collection", [12, "void", [], {}]], [
    "pause_collection",
    NO_TEXT.map((behavior) => ({ behavior })),
  ]],
} as const;

/** Everything that an event may report, all of it usable. */
const REPORTED = {
  quantity: 3,
  cancelAt: 1_800_000_000,
  trialEnd: 1_800_000_000,
  paused: "void",
};

const ACCOUNT = "data.object.metadata.accountId";
const NO_ACCOUNT = "data.object.metadata.accountId is missing";

export const ROWS_75_TO_76: readonly Row[] = [
  {
    row: 75,
    input: "odd values in what an event need not report",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      await applied(stage, creation({ subscription }));
      let created = Math.floor(Date.now() / 1000) - 10_000;
      for (const [column, places] of Object.entries(ODD)) {
        for (const [path, values] of places) {
          for (const value of values) {
            const options = { created: created++, ...REPORTED };
            const changes = { [`data.object.${path}`]: value };
            if (path === "cancel_at_period_end") {
              changes["data.object.cancel_at"] = null;
            }
            const birth = edited(creation(options), changes);
            await applied(stage, birth);
            assertEquals(
              await reported(stage, birth.data.object.id, column),
              null,
              `${column}: ${JSON.stringify(value)}`,
            );
            // Among what an update replaced, and of the second before.
            const previous = edited(
              update({ ...options, subscription: birth.data.object.id }),
              { "data.previous_attributes": { [path]: value, status: value } },
            );
            await applied(stage, previous);
            assert(
              await reported(stage, birth.data.object.id, column) !== null,
            );
          }
        }
      }
      for (const value of NO_TEXT) {
        const birth = edited(creation(), { "data.object.status": value });
        await applied(stage, birth);
        const { id } = birth.data.object;
        assertEquals(await reported(stage, id, "provider_status"), null);
      }
      for (const value of [undefined, null, "true", 0, {}]) {
        const birth = edited(creation(), {
          livemode: value,
          "data.object.livemode": value,
        });
        await applied(stage, birth);
        const { id } = birth.data.object;
        assertEquals(await reported(stage, id, "livemode"), null);
      }
    },
  },
  {
    row: 76,
    input: "a creation without an account, of a customer known or not",
    check: async (stage) => {
      const [customer, shared] = [uniqueId("cus"), uniqueId("cus")];
      const [account, other] = [uniqueId("acc"), uniqueId("acc")];
      const unowned = (of: string | null) =>
        creation({ account: null, customer: of });
      const refuse = async (event: { id: string }) => {
        const row = await filed(stage, event, { as: event.id });
        assert(String(row.error).startsWith(NO_ACCOUNT), `${row.error}`);
      };

      const early = unowned(customer);
      for (const event of [early, unowned(null)]) await refuse(event);
      await applied(stage, creation({ account, customer }));
      for (const event of [early, unowned(customer)]) {
        await applied(stage, event);
        const { id } = event.data.object;
        assertEquals(await reported(stage, id, "account_id"), account);
      }
      // A malformed account is not a missing one.
      for (const value of ["", " ", 12, [], "a\nb"]) {
        const event = edited(creation({ customer }), { [ACCOUNT]: value });
        const row = await filed(stage, event, { as: event.id });
        assert(String(row.error).startsWith(`${ACCOUNT}: must`));
      }
      // Subscriptions of one customer with different accounts.
      await applied(stage, creation({ account, customer: shared }));
      await applied(stage, creation({ account: other, customer: shared }));
      await refuse(unowned(shared));
    },
  },
];

async function reported(
  { sql }: Stage,
  id: string,
  column: string,
): Promise<unknown> {
  const [row] = await sql`
    select ${sql(column)} as value from billing.subscriptions where id = ${id}`;
  return row?.value;
}
