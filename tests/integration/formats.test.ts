/**
 * The providers other than Stripe, over HTTP: their life of a subscription, and what they
 * might send that is odd. Their fields are in tests/unit/functions/formats.test.ts.
 */
import { assert, assertEquals } from "@std/assert";
import {
  type ProviderSettings,
  providerSettings,
  signatureHeaders,
} from "../../scripts/common/sign.ts";
import {
  type Provider,
  providerEvent,
  type ProviderEventOptions,
  PROVIDERS,
} from "../../scripts/events/provider_events.ts";
import {
  type ServedFunction,
  startReceiver,
  startWorker,
  takeTurn,
} from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import { post } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

const SECRETS: Record<Provider, string> = {
  paddle: "pdl_ntfset_0123456789abcdef",
  polar: "polar_whs_0123456789abcdef",
  dodo: "whsec_c2VjcmV0LW9mLWRvZG8tcGF5bWVudHM=",
  "lemon-squeezy": "lemon-squeezy-secret",
};
const OLD = "the-secret-before-the-rotation";
/** The types of a life: creation, update, failed payment, end; and a further one. */
const LIVES: Record<Provider, string[]> = {
  paddle: [
    "subscription.created",
    "subscription.updated",
    "transaction.payment_failed",
    "subscription.canceled",
  ],
  polar: [
    "subscription.created",
    "subscription.updated",
    "subscription.past_due",
    "subscription.revoked",
  ],
  dodo: [
    "subscription.active",
    "subscription.renewed",
    "payment.failed",
    "subscription.cancelled",
  ],
  "lemon-squeezy": [
    "subscription_created",
    "subscription_updated",
    "subscription_payment_failed",
    "subscription_expired",
  ],
};

interface Sender {
  readonly provider: Provider;
  readonly receiver: ServedFunction;
  readonly settings: ProviderSettings;
}

/** Starts a receiver whose provider B has the format. */
async function startFor(provider: Provider, more: Record<string, string> = {}) {
  const env = {
    PROVIDER_B_FORMAT: provider,
    // Polar's and Dodo's secrets have a form of their own.
    PROVIDER_B_SIGNING_SECRET: provider === "dodo"
      ? `whsec_${btoa(OLD)},${SECRETS.dodo}`
      : `${OLD},${SECRETS[provider]}`,
    HANDLE_EVENT_TYPES: PROVIDERS[provider].types.at(-1)!,
    ...more,
  };
  const receiver = await startReceiver({ env });
  const settings = {
    ...providerSettings({
      ...env,
      PROVIDER_B_SIGNING_SECRET: SECRETS[provider],
    }, "b"),
  };
  return { provider, receiver, settings };
}

/** Signs and sends a body; returns the status. */
async function send(
  { receiver, settings }: Sender,
  event: unknown,
  { id, header = (value: string) => value }: {
    id?: string;
    header?: (value: string) => string;
  } = {},
) {
  const body = JSON.stringify(event);
  const headers = signatureHeaders({ ...settings, body, ...(id && { id }) });
  headers[settings.header] = header(headers[settings.header]!);
  return (await post(receiver.url, { headers, body })).status;
}

/** Returns what is recorded of a subscription. */
async function recordOf(provider: Provider, id: string) {
  const key = provider === "lemon-squeezy" ? `ls_${id}` : id;
  const [row] = await sql`
    select status, account_id, plan_id,
      (select count(*)::int from billing.notifications n where n.subscription_id = s.id) as notices,
      (select count(*)::int from billing.processed_events p where p.provider = 'b') as ledger
    from billing.subscriptions s where id = ${key}`;
  return row && { ...row };
}

const START = Date.now() - 60_000;
const at = (seconds: number) => new Date(START + seconds * 1_000).toISOString();

for (const provider of Object.keys(LIVES) as Provider[]) {
  Deno.test(`${provider}: a life in two orders, with duplicates, and a payment for a handler`, async () => {
    await sql`truncate billing.processed_events, billing.failed_events`;
    const sender = await startFor(provider);
    await using _ = sender.receiver;
    await using worker = await startWorker({ PROVIDER_B_FORMAT: provider });
    const about = (id: string): ProviderEventOptions => ({
      ...{
        subscription: id,
        customer: `c${id}`,
        account: `acc_${id}`,
        plan: "7",
      },
    });
    const life = LIVES[provider].map((type, i) => ({
      id: `one_${i}`,
      event: (id: string) =>
        providerEvent(provider, type, {
          ...about(id),
          id: `${id}_${i}`,
          occurredAt: at(i),
        }),
    }));
    const first = `1${crypto.getRandomValues(new Uint16Array(1))[0]}`;
    for (const { id, event } of [...life, ...life.slice(0, 2)]) {
      assertEquals(
        await send(sender, event(first), { id: `${id}_${first}` }),
        200,
      );
    }
    const ended = {
      status: "canceled",
      account_id: `acc_${first}`,
      plan_id: "7",
    };
    assertEquals(await recordOf(provider, first), {
      ...ended,
      notices: 1,
      ledger: 4,
    });

    // Backwards: what comes before the creation is stored, and heals with it.
    const second = `2${first}`;
    for (const { id, event } of life.toReversed()) {
      const isCreation = id === "one_0";
      const status = await send(sender, event(second), {
        id: `${id}_${second}`,
      });
      assertEquals(status, isCreation ? 200 : 500);
    }
    await eventually(async () => {
      await takeTurn(worker);
      const [open] =
        await sql`select count(*)::int as count from billing.failed_events where resolved_at is null`;
      return open!["count"] === 0;
    });
    const same = { ...ended, account_id: `acc_${second}` };
    assertEquals(await recordOf(provider, second), {
      ...same,
      notices: 1,
      ledger: 8,
    });

    const further = PROVIDERS[provider].types.at(-1)!;
    const name = `on_${further.replace(/[^a-z0-9]/g, "_")}`;
    await sql.unsafe(`
      create table public.bought (provider text);
      grant insert on public.bought to service_role;
      create function billing.${name}(provider text, event jsonb) returns void
      language sql as $$ insert into public.bought values (provider) $$`)
      .simple();
    try {
      const bought = providerEvent(provider, further, {
        id: "buy",
        customer: "9",
        occurredAt: at(9),
      });
      for (let i = 0; i < 3; i++) {
        assertEquals(await send(sender, bought, { id: "buy" }), 200);
      }
      assertEquals((await sql`select provider from public.bought`).length, 1);
    } finally {
      await sql.unsafe(
        `drop table public.bought; drop function billing.${name}`,
      ).simple();
    }
  });

  Deno.test(`${provider}: odd deliveries`, async () => {
    const sender = await startFor(provider);
    await using _ = sender.receiver;
    const [created, updated] = LIVES[provider] as [string, string];
    const subscription = `3${crypto.getRandomValues(new Uint16Array(1))[0]}`;
    const event = providerEvent(provider, created, {
      subscription,
      account: "acc_odd",
    });
    const { header } = sender.settings;
    const forged = (value: string) => value.replace(/.{8}(?==?$)/, "00000000");
    for (
      const [said, change] of [
        [401, () => ""],
        [401, forged],
        [401, (value: string) => `${value},${value}`],
        // A signature with another secret before it, as during a rotation.
        ...(/paddle/.test(header)
          ? [
            [200, (value: string) =>
              value.replace("h1=", `h1=${"0".repeat(64)};h1=`)] as const,
          ]
          : /webhook/.test(header)
          ? [
            [200, (value: string) => `v1,${"A".repeat(43)}= ${value}`] as const,
          ]
          : []),
      ] as const
    ) {
      assertEquals(
        await send(sender, event, { id: "odd_1", header: change }),
        said,
        `${change}`,
      );
    }
    // The old secret is still taken.
    const old = {
      ...sender,
      settings: {
        ...sender.settings,
        secret: provider === "dodo" ? `whsec_${btoa(OLD)}` : OLD,
      },
    };
    assertEquals(await send(old, event, { id: "odd_1" }), 200);

    // Another id for the same: the record is as before.
    const again = providerEvent(provider, updated, {
      subscription,
      account: "acc_odd",
      plan: "8",
    });
    for (const id of ["odd_2", "odd_3"]) {
      assertEquals(await send(sender, { ...again, event_id: id }, { id }), 200);
    }
    assertEquals((await recordOf(provider, subscription))?.["plan_id"], "8");

    // Of no form that it knows: kept for triage, under an id that stays.
    const unreadable = {
      ...again,
      event_id: "odd_4",
      data: { id: {} },
      meta: { event_name: updated },
    };
    assertEquals(await send(sender, unreadable, { id: "odd_4" }), 422);
    const rows = await sql`
      select event_id, type, attempts from billing.failed_events where provider = 'b' and resolved_at is null`;
    const [row] = rows.filter(({ type }) => type === updated);
    assert(row, JSON.stringify(rows));
    const hasId = provider !== "lemon-squeezy";
    assertEquals(row["event_id"] === "odd_4", hasId);
    assertEquals(await send(sender, unreadable, { id: "odd_4" }), 422);
    const [{ attempts } = {}] =
      (await storedEvent(sql, row["event_id"])).failures;
    assertEquals(attempts, 2);
    await sql`delete from billing.failed_events where provider = 'b'`;
  });
}

Deno.test("1,000 poison events of Polar are answered 200 with acknowledge, and are all there for triage", async () => {
  await sql`truncate billing.failed_events`;
  const sender = await startFor("polar", {
    PROVIDER_B_FAILURES: "acknowledge",
  });
  await using _ = sender.receiver;
  const [created, updated] = LIVES.polar as [string, string];
  const poison = Array.from({ length: 1_000 }, (_, i) => {
    const event = providerEvent("polar", i % 2 ? created : updated, {
      subscription: `poison_${i}`,
    });
    return [
      `poison_${i}`,
      i % 2 ? { ...event, data: { id: i } } : event,
    ] as const;
  });
  const statuses = new Set<number>();
  const left = poison.values();
  await Promise.all(Array.from({ length: 16 }, async () => {
    for (const [id, event] of left) {
      statuses.add(await send(sender, event, { id }));
    }
  }));
  assertEquals([...statuses], [200]);
  const [counted] = await sql`
    select count(*)::int as count, count(distinct event_id)::int as ids
    from billing.failed_events where resolved_at is null and event_id like 'poison_%'`;
  assertEquals({ ...counted }, { count: 1_000, ids: 1_000 });
  await sql`truncate billing.failed_events`;
});
