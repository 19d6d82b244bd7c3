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

const CASES = Math.min(caseCount(3_000), 50_000);
const CONNECTIONS = 16;
/** The only errors for which an event that can be read is answered with 500. */
const DATABASE_SAYS = [
  "subscription_unknown",
  "creation_pending",
  "subscription_of_other_provider",
];

interface Delivery {
  readonly number: number;
  readonly provider: "a" | "b";
  readonly body: Uint8Array<ArrayBuffer>;
  /** The IDs that it may be filed under. */
  readonly ids: readonly string[];
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
    for (const { status } of deliveries) {
      counts[status] = (counts[status] ?? 0) + 1;
    }
    console.log(
      `${deliveries.length} deliveries, seed ${seed}: ${
        JSON.stringify(counts)
      }`,
    );
    assertEquals(Object.keys(counts), ["200", "400", "422", "500"]);
    for (const count of Object.values(counts)) assert(count > CASES / 100);

    const all = deliveries.flatMap(({ ids }) => ids);
    const ledger = await sql`
      select provider, event_id from billing.processed_events
      where event_id = any (${all})`;
    const failed = await sql`
      select provider, event_id, error_code, error from billing.failed_events
      where event_id = any (${all}) and last_failed_at >= ${started}`;
    const applied = new Set(ledger.map(keyOf));
    const filed = new Map(failed.map((row) => [keyOf(row), row]));
    for (const delivery of deliveries) {
      const { provider, ids, number, status } = delivery;
      const keys = ids.map((event_id) => keyOf({ provider, event_id }));
      const kept = {
        isApplied: keys.some((key) => applied.has(key)),
        row: keys.map((key) => filed.get(key)).find((row) => row),
        // A row holds the latest failure under an ID.
        isOnly: ids.every((id) => all.indexOf(id) === all.lastIndexOf(id)),
      };
      assertEquals(
        faultOf(status, kept),
        undefined,
        `Case ${number} of seed ${seed}, ${provider}/${ids}, ${status}: ${
          new TextDecoder().decode(delivery.body)
        }`,
      );
    }
  } finally {
    await sql.end();
  }
});

/** What is wrong with what is kept of a delivery that was answered so. */
function faultOf(
  status: number,
  { isApplied, row, isOnly }: {
    isApplied: boolean;
    row: Record<string, unknown> | undefined;
    isOnly: boolean;
  },
): string | undefined {
  // Applied, or of a type that is ignored.
  if (status === 200) {
    return row && !isApplied && isOnly ? "filed" : undefined;
  }
  // Nothing is filed against an event that was applied, whatever body comes
  // under its ID later.
  if (row === undefined) return isApplied ? undefined : "not filed";
  if (!isOnly) return undefined;
  const [code, error] = [String(row["error_code"]), String(row["error"])];
  // The database's errors name the subscription.
  const isFault = status === 500
    ? !DATABASE_SAYS.includes(code)
    : error.includes(VALUE_MARK);
  return isFault ? `${code}: ${error}` : undefined;
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
  return {
    number,
    provider: dice.once(5) ? "b" : "a",
    body,
    ids: idsOf(body),
    status: 0,
  };
}

/** The event's own ID, if it has one that Postgres can hold, and the hash. */
function idsOf(body: Uint8Array): string[] {
  const hash = `sha256:${createHash("sha256").update(body).digest("hex")}`;
  try {
    const { id } = JSON.parse(new TextDecoder().decode(body));
    const isText = typeof id === "string" && id.isWellFormed() &&
      !id.includes("\0");
    return isText ? [id, hash] : [hash];
  } catch {
    return [hash];
  }
}
