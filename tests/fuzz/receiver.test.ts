/**
 * The whole function, with a valid signature over any bytes: it always answers,
 * and each delivery is accounted for.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { handleWebhook } from "../../supabase/functions/billing-webhook/handle_webhook.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { caseCount, diceOf, freshSeed } from "../support/random.ts";
import { providerHeaders } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { testReceiver } from "../support/test_receiver.ts";
import { makeEventBody, makeRandomBody, VALUE_MARK } from "./event_case.ts";
import { judge, usableId, type Verdict } from "./oracle.ts";

const CASES = Math.min(caseCount(3_000), 50_000);
const CONNECTIONS = 16;
/** The only errors that Postgres may return for a good event. */
const DATABASE_SAYS = [
  "subscription_unknown",
  "creation_pending",
  "subscription_of_other_provider",
];

/** What the database says of a creation without an account. */
const NO_ACCOUNT = "data.object.metadata.accountId is missing";

interface Delivery {
  readonly number: number;
  readonly provider: "a" | "b";
  readonly body: Uint8Array<ArrayBuffer>;
  /** The ID that it is filed under if it fails. */
  readonly id: string;
  readonly verdict: Verdict;
  status: number;
}

Deno.test("handleWebhook() answers any signed body, and accounts for each delivery", async () => {
  const seed = freshSeed();
  const sql = connect();
  try {
    const [{ now: started } = { now: new Date() }] = await sql<
      { now: Date }[]
    >`select now()`;
    const deliveries = await deliverAll(seed);
    const counts: Record<string, number> = {};
    for (const { status, verdict } of deliveries) {
      const key = `${verdict} ${status}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    console.log(
      `${deliveries.length} deliveries, seed ${seed}: ${
        Object.entries(counts).sort().map(([key, n]) => `${n} ${key}`)
          .join(", ")
      }`,
    );
    for (const seen of ["handled 200", "handled 500", "invalid 422"]) {
      assert(counts[seen]! > CASES / 50, `Hardly any are ${seen}`);
    }

    const ids = deliveries.map(({ id }) => id);
    const ledger = await sql`
      select provider, event_id from public.processed_events
      where event_id = any (${ids})`;
    const failed = await sql`
      select provider, event_id, error_code, error from public.failed_events
      where event_id = any (${ids}) and last_failed_at >= ${started}`;
    const applied = new Set(ledger.map(keyOf));
    const filed = new Map(failed.map((row) => [keyOf(row), row]));
    for (const delivery of deliveries) {
      const { provider, id, number, status } = delivery;
      const key = keyOf({ provider, event_id: id });
      const kept = {
        isApplied: applied.has(key),
        row: filed.get(key),
        // A row holds the latest failure under an ID.
        isOnly: ids.indexOf(id) === ids.lastIndexOf(id),
      };
      assertEquals(
        faultOf(delivery, kept),
        undefined,
        `Case ${number} of seed ${seed}, ${provider}/${id}, ${status}: ${
          new TextDecoder().decode(delivery.body)
        }`,
      );
    }
  } finally {
    await sql.end();
  }
});

/** What is wrong with the answer to a delivery, or with what is kept of it. */
function faultOf(
  { verdict, status }: Delivery,
  { isApplied, row, isOnly }: {
    isApplied: boolean;
    row: Record<string, unknown> | undefined;
    isOnly: boolean;
  },
): string | undefined {
  switch (verdict) {
    case "unreadable":
    case "invalid":
      // An event that was applied is acknowledged in any shape.
      if (status === 200 && isApplied) return undefined;
      if (status !== (verdict === "invalid" ? 422 : 400)) return "status";
      if (String(row?.error).includes(VALUE_MARK)) return "repeats a value";
      // Nothing is filed against an event that was applied, whatever body
      // comes under its id later.
      return row || isApplied ? undefined : "not filed";
    case "ignored":
      return status === 200 ? undefined : "status";
    case "handled":
      if (status === 200) return isApplied ? undefined : "not in the ledger";
      if (status !== 500 && status !== 422) return "status";
      if (row === undefined) return "not filed";
      if (status === 422) {
        return isOnly && !String(row.error).startsWith(NO_ACCOUNT)
          ? `${row.error_code}: ${row.error}`
          : undefined;
      }
      return isOnly && !DATABASE_SAYS.includes(String(row.error_code))
        ? `${row.error_code}: ${row.error}`
        : undefined;
  }
}

function keyOf(
  { provider, event_id }: Record<string, unknown>,
): string {
  return `${provider}/${event_id}`;
}

async function deliverAll(seed: number): Promise<Delivery[]> {
  const receiver = await testReceiver();
  const subscriptions = Array.from({ length: 50 }, () => uniqueId("sub"));
  const deliveries = Array.from(
    { length: CASES },
    (_, number) => makeDelivery(number, { seed, subscriptions }),
  );
  const queue = deliveries.values();
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    for (const delivery of queue) {
      const { provider, body } = delivery;
      const headers = providerHeaders(body, provider);
      const request = new Request("http://localhost/billing-webhook", {
        method: "POST",
        headers,
        body,
      });
      const response = await handleWebhook(request, receiver);
      assert(!(await response.text()).includes(VALUE_MARK));
      delivery.status = response.status;
    }
  }));
  return deliveries;
}

function makeDelivery(
  number: number,
  { seed, subscriptions }: { seed: number; subscriptions: string[] },
): Delivery {
  const dice = diceOf(seed + number);
  const created = Math.floor(Date.now() / 1_000) - 600;
  const body = dice.once(8) ? makeRandomBody(dice) : makeEventBody({
    id: uniqueId("evt"),
    subscription: dice.pick(subscriptions as [string, ...string[]]),
    created,
  }, dice);
  const hash = createHash("sha256").update(body).digest("hex");
  return {
    number,
    provider: dice.once(5) ? "b" : "a",
    body,
    id: usableId(body) ?? `sha256:${hash}`,
    verdict: judge(body, Date.now() / 1_000),
    status: 0,
  };
}
