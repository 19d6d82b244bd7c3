/**
 * The whole function, with a valid signature over any bytes: it always answers,
 * and each delivery is accounted for.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { createHash } from "node:crypto";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import {
  invoiceEvent,
  type InvoiceEventOptions,
} from "../../scripts/events/invoice_event.ts";
import { paymentEvent } from "../../scripts/events/payment_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { applyEvents } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { gather } from "../../supabase/functions/billing-webhook/gather.ts";
import {
  handleWebhook,
  type Receiver,
} from "../../supabase/functions/billing-webhook/handle_webhook.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/providers.ts";
import { edited } from "../support/edited.ts";
import { caseCount, freshSeed } from "../support/random.ts";
import { providerHeaders } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const CASES = Math.min(caseCount(3_000), 50_000);
const CONNECTIONS = 16;
/** In every strange text, so that a value that is repeated is found. */
const MARK = "FUZZED";
const NOW = Math.floor(Date.now() / 1_000);
const SUBSCRIPTIONS = Array.from({ length: 50 }, () => uniqueId("sub"));

/** The only errors for which an event that can be read is answered with 500. */
const DATABASE_SAYS = [
  "subscription_unknown",
  "creation_pending",
  "subscription_of_other_provider",
];

const MAKERS: readonly ((options: InvoiceEventOptions) => object)[] = [
  ...(["created", "updated", "deleted"] as const).map((what) =>
    subscriptionEvent.bind(null, `customer.subscription.${what}`)
  ),
  invoiceEvent,
  paymentEvent.bind(null, "checkout.session.completed"),
];

/** Anything that JSON can hold; among it what is good. */
const strange = fc.oneof(
  fc.constantFrom<unknown>(
    ...[undefined, null, "", " \t", -1, -0, 1.5, 2 ** 53, 1e21],
    ...[NOW, NOW + 400, NOW * 1_000, String(NOW), MARK.padEnd(256, "x")],
    ...[{ id: MARK }, { behavior: MARK }, { data: [] }, [{ id: MARK }]],
  ),
  fc.string({ unit: "binary" }).map((text) => MARK + text),
  fc.jsonValue({ maxDepth: 2 }),
);

/** An event of some type, changed at up to three places, as bytes. */
const eventBodies = fc.record({
  make: fc.constantFrom(...MAKERS),
  id: fc.uuid().map(() => uniqueId("evt")),
  subscription: fc.constantFrom(...SUBSCRIPTIONS),
  apiVersion: fc.constantFrom(...API_VERSIONS),
  created: fc.integer({ min: NOW - 700, max: NOW - 600 }),
  changes: fc.array(fc.tuple(fc.nat(), strange), { maxLength: 6 }),
  // Most are behind the end.
  cutAt: fc.noBias(fc.nat(40_000)),
  byte: fc.tuple(fc.noBias(fc.nat(20_000)), fc.nat(255)),
}).map(({ make, changes, cutAt, byte, ...options }) => {
  let event: object = make(options);
  for (const [at, value] of changes) {
    const paths = pathsOf(event);
    const path = paths[at % paths.length];
    if (path) event = edited(event, { [path]: value });
  }
  const text = JSON.stringify(event).slice(0, cutAt);
  const bytes = new TextEncoder().encode(text);
  const [at, value] = byte;
  if (at < bytes.length) bytes[at] = value;
  return bytes;
});

const deliveries = fc.record({
  provider: fc.constantFrom<"a" | "b">("a", "a", "a", "a", "b"),
  body: eventBodies,
});

/** Returns a receiver in this process, with the local secrets and no log. */
async function testReceiver(): Promise<Receiver> {
  const { secret: secretKey } = await localKeys();
  const supabaseUrl = setting("TEST_API_URL");
  const database = createClient({ supabaseUrl, secretKey }, { fetch });
  return {
    providers: await readProviders({
      ...LOCAL_SIGNING_SECRETS,
      // They are taken beside the local stack's key only.
      SUPABASE_SECRET_KEYS: JSON.stringify({ default: secretKey }),
    }),
    toleranceSeconds: 300,
    handledTypes: { types: new Set() },
    accountFromCheckout: false,
    notify: new Set(["payment_failed", "recovered", "ended"]),
    planItem: "first",
    body: { maxBytes: 1_048_576, timeLimitMs: 10_000 },
    apply: gather(
      (events) => applyEvents(events, { database }),
      { maxTogether: 50, maxWaiting: 1_000, maxWaitMs: 3_000 },
    ),
    database,
    unmappedSubscriptions: "fail",
    log: () => {},
    wakeWorker: () => {},
    clock: Date.now,
  };
}

Deno.test("handleWebhook() answers any signed body, and accounts for each delivery", async () => {
  const seed = freshSeed();
  const receiver = await testReceiver();
  const sql = connect();
  try {
    // The first of each ID: a row holds the latest failure under it.
    const known = new Set<string>();
    const sent = fc.sample(deliveries, { numRuns: CASES, seed })
      .map((delivery) => ({ ...delivery, keys: keysOf(delivery), status: 0 }))
      .filter(({ keys }) => {
        const isNew = !keys.some((key) => known.has(key));
        keys.forEach((key) => known.add(key));
        return isNew;
      });
    const queue = sent.values();
    await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
      for (const delivery of queue) {
        const { provider, body } = delivery;
        const headers = providerHeaders(body, provider);
        const url = "http://localhost/billing-webhook";
        // A database that is busy answers late: a provider sends it again.
        for (let sends = 0; sends < 5 && delivery.status % 503 === 0; sends++) {
          const request = new Request(url, { method: "POST", headers, body });
          const response = await handleWebhook(request, receiver);
          assert(!(await response.text()).includes(MARK));
          delivery.status = response.status;
        }
      }
    }));

    const counts: Record<string, number> = {};
    for (const { status } of sent) counts[status] = (counts[status] ?? 0) + 1;
    console.log(`${sent.length} deliveries, seed ${seed}:`, counts);
    assertEquals(Object.keys(counts), ["200", "400", "422", "500"]);
    for (const count of Object.values(counts)) assert(count > CASES / 100);

    const rows = await sql<{ key: string; code: string; error: string }[]>`
      select provider || '/' || event_id as key, error_code as code, error
      from billing.failed_events
      where resolved_at is null`;
    const filed = new Map(rows.map((row) => [row.key, row]));
    for (const { keys, status, body } of sent) {
      const row = keys.map((key) => filed.get(key)).find((row) => row);
      // The database's errors name the subscription; no other repeats a value.
      const isAccounted = status === 200
        ? row === undefined
        : status === 500
        ? DATABASE_SAYS.includes(row?.code ?? "")
        : row?.error.includes(MARK) === false;
      const text = new TextDecoder().decode(body);
      assert(isAccounted, `${seed}, ${status}, ${row?.error}, ${text}`);
    }
  } finally {
    await sql.end();
  }
});

/** The event's own ID, if it has one that Postgres can hold, and the hash. */
function keysOf(
  { provider, body }: { provider: string; body: Uint8Array },
): string[] {
  const ids = [`sha256:${createHash("sha256").update(body).digest("hex")}`];
  try {
    const { id } = JSON.parse(new TextDecoder().decode(body));
    if (id.isWellFormed() && !id.includes("\0")) ids.push(id);
  } catch { /* It has none. */ }
  return ids.map((id) => `${provider}/${id}`);
}

function pathsOf(tree: unknown, path = ""): string[] {
  if (typeof tree !== "object" || tree === null) return [];
  // What the changes themselves have put there may have dots in its names.
  const members = Object.entries(tree).filter(([name]) => !name.includes("."));
  return members.flatMap(([name, value]) => [
    path + name,
    ...pathsOf(value, `${path}${name}.`),
  ]);
}
