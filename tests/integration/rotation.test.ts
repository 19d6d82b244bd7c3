/**
 * The secret of each provider is rotated while deliveries come in, by the steps
 * of SECURITY.md.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { type Platform, startPlatform } from "../support/platform.ts";
import {
  type Delivered,
  type SignedTraffic,
  startTraffic,
} from "../support/signed_traffic.ts";
import { connect } from "../support/tables.ts";

const A = { old: "whsec_a_old_0123456789", new: "whsec_a_new_0123456789" };
const B = { old: "b_old_0123456789", new: "b_new_0123456789" };
const OLD = secretsOf([A.old], [B.old]);
const BOTH = secretsOf([A.new, A.old], [B.new, B.old]);
const NEW = secretsOf([A.new], [B.new]);

const PAGE = new URL("../../SECURITY.md", import.meta.url);
const STEPS = [
  "1. Make the new secret",
  "2. Configure both",
  "3. Let the provider change over",
  "4. Configure the new one alone",
] as const;

const sql = connect();
Deno.test.afterAll(() => sql.end());

function secretsOf(a: string[], b: string[]) {
  return {
    PROVIDER_A_SIGNING_SECRET: a.join(),
    PROVIDER_B_SIGNING_SECRET: b.join(),
  };
}

/** Of the deliveries, those whose event is where it is asked for. */
async function countIn(
  table: "processed_events" | "failed_events",
  deliveries: readonly Delivered[],
): Promise<number> {
  const ids = deliveries.map(({ eventId }) => eventId);
  const rows = await sql`
    select event_id from ${sql(`billing.${table}`)}
    where event_id = any(${ids})`;
  return rows.length;
}

function isRefused({ status }: Delivered): boolean {
  return status !== 200;
}

/** Does a step, has traffic go on after it, and says what that came to. */
async function step(
  name: string,
  traffic: SignedTraffic,
  doIt: () => Promise<void> | void,
): Promise<Delivered[]> {
  const from = traffic.deliveries.length;
  await doIt();
  await traffic.goesOn();
  const deliveries = traffic.deliveries.slice(from);
  const refused = deliveries.filter(isRefused).length;
  console.log(`${name}: ${deliveries.length} delivered, ${refused} refused`);
  return deliveries;
}

function configure(
  platform: Platform,
  { secrets, traffic }: { secrets: typeof OLD; traffic: SignedTraffic },
): Promise<void> {
  return platform.change(secrets, { overlap: traffic.goesOn });
}

Deno.test("the steps are those of SECURITY.md", async () => {
  const page = await Deno.readTextFile(PAGE);
  const headings = [...page.matchAll(/^### (\d.*)$/gm)].map(([, text]) => text);
  assertEquals(headings, [...STEPS]);
});

Deno.test("a secret is rotated step by step and no delivery is refused", async () => {
  await using platform = await startPlatform(OLD);
  const { deliveries } = await (async () => {
    await using traffic = startTraffic(platform, { a: [A.old], b: [B.old] });
    await step("Before", traffic, () => {});
    await step(STEPS[0], traffic, () => {
      // Stripe signs with both from here on; others show the secret only.
      traffic.signWith("a", [A.old, A.new]);
    });
    await step(
      STEPS[1],
      traffic,
      () => configure(platform, { secrets: BOTH, traffic }),
    );
    await step(STEPS[2], traffic, async () => {
      traffic.signWith("b", [B.old, B.new]);
      await traffic.goesOn();
      traffic.signWith("a", [A.new]);
      traffic.signWith("b", [B.new]);
    });
    await step(
      STEPS[3],
      traffic,
      () => configure(platform, { secrets: NEW, traffic }),
    );
    return traffic;
  })();

  assertEquals(deliveries.filter(isRefused), []);
  const inLedger = await countIn("processed_events", deliveries);
  assertEquals(inLedger, deliveries.length);
  assertEquals(await countIn("failed_events", deliveries), 0);
  console.log(
    `Rotated: ${deliveries.length} deliveries, 0 refused, ${inLedger} events in the ledger`,
  );
});

Deno.test("the new secret alone refuses deliveries until the provider signs with it; with both secrets, the retries are applied", async () => {
  await using platform = await startPlatform(NEW);
  await using traffic = startTraffic(platform, { a: [A.old], b: [B.old] });
  const refused = await step("The new one alone, too early", traffic, () => {});
  for (const provider of ["a", "b"]) {
    assert(refused.some((delivery) => delivery.provider === provider));
  }
  assertEquals([...new Set(refused.map(({ status }) => status))], [401]);
  assertEquals(await countIn("processed_events", refused), 0);
  assertEquals(await countIn("failed_events", refused), 0);

  const fixed = await step(
    "Both, as it should have been",
    traffic,
    () => configure(platform, { secrets: BOTH, traffic }),
  );
  assertEquals(fixed.slice(-10).filter(isRefused), []);
  const retried = await Promise.all(
    traffic.deliveries.filter(isRefused).map(traffic.retry),
  );
  assertEquals(retried.filter(isRefused), []);
  assertEquals(await countIn("processed_events", retried), retried.length);
});
