/**
 * docs/app.md: the trigger that broadcasts changes, the policy that says who may
 * listen, and the client that does. Realtime is a stand-in.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { decodeJwt } from "jose";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import {
  applySql,
  appOf,
  loadAppCode,
  sqlOf,
  subscribe,
} from "../support/app_page.ts";
import { REALTIME_SQL } from "../support/realtime_schema.ts";
import { realtimeServer } from "../support/realtime_socket.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";

const UNDO = `
  drop function if exists public.broadcast_subscription_change cascade;
  drop schema if exists realtime cascade;
`;

const sql = connect();
const receiver = await startReceiver();
const code = await loadAppCode();

Deno.test.afterAll(async () => {
  await code[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

async function broadcasting(): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  opened.defer(async () => {
    await sql.unsafe(UNDO).simple();
  });
  opened.use(
    await applySql(
      sql,
      REALTIME_SQL,
      sqlOf("create trigger broadcast"),
      sqlOf('"Users hear'),
    ),
  );
  return opened.move();
}

/** Delivers an update of a subscription; returns the event's ID. */
async function update(subscription: string): Promise<string> {
  const event = subscriptionEvent("customer.subscription.updated", {
    subscription,
    status: "past_due",
  });
  const answer = await deliver(receiver.url, event);
  assertEquals(answer.status, 200);
  return event.id;
}

/** Asserts that an update of a subscription is applied, whatever else fails. */
async function assertApplied(subscription: string): Promise<void> {
  const id = await update(subscription);
  const { ledger, failures } = await storedEvent(sql, id);
  assertEquals(ledger.map(({ outcome }) => outcome), ["applied"]);
  assertEquals(failures, []);
  const [row] = await sql`
    select status from billing.subscriptions where id = ${subscription}`;
  assertEquals(row?.["status"], "past_due");
}

function messages() {
  return sql`
    select topic, event, private, payload - 'id' as payload
    from realtime.messages order by inserted_at`;
}

Deno.test("the trigger sends each change to the topic of its account, and only which subscription it is", async () => {
  await using _ = await broadcasting();
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  const of_ann = await subscribe(receiver.url, ann);
  const of_ben = await subscribe(receiver.url, ben);
  await update(of_ann);
  const message = (account: string, subscription: string) => ({
    topic: `account:${account}`,
    event: "subscription_changed",
    private: true,
    payload: { subscription_id: subscription },
  });
  assertEquals(
    (await messages()).map((row) => ({ ...row })),
    [message(ann, of_ann), message(ben, of_ben), message(ann, of_ann)],
  );
});

Deno.test("an event that changes no subscription broadcasts nothing", async () => {
  await using _ = await broadcasting();
  const subscription = await subscribe(receiver.url, crypto.randomUUID());
  const event = subscriptionEvent("customer.subscription.updated", {
    subscription,
  });
  await deliver(receiver.url, event);
  const before = (await messages()).length;
  assertEquals((await deliver(receiver.url, event)).status, 200);
  assertEquals((await messages()).length, before);
});

/** Returns whether a user may join a topic, found out as Realtime does. */
async function mayJoin(
  topic: string,
  { role, sub, extension = "broadcast" }: {
    role: string;
    sub?: string;
    extension?: string;
  },
): Promise<boolean> {
  let isSeen = false;
  await sql.begin(async (tx) => {
    await tx`
      insert into realtime.messages (topic, extension, private)
      values (${topic}, ${extension}, true)`;
    const claims = JSON.stringify({ role, sub });
    await tx`
      select set_config('request.jwt.claims', ${claims}, true),
        set_config('realtime.topic', ${topic}, true), set_config('role', ${role}, true)`;
    isSeen = (await tx`select from realtime.messages`).length > 0;
    throw new Error("Realtime rolls it back");
  }).catch(() => {});
  return isSeen;
}

Deno.test("a user may listen to their own account, and to nothing else", async () => {
  await using _ = await broadcasting();
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  const role = "authenticated";
  assert(await mayJoin(`account:${ann}`, { role, sub: ann }));
  for (
    const [topic, user] of [
      [`account:${ben}`, { role, sub: ann }],
      [`account:${ann}`, { role }],
      [`account:${ann}`, { role: "anon" }],
      ["account:", { role }],
      ["account:null", { role }],
      [ann, { role, sub: ann }],
      [`account:${ann}`, { role, sub: ann, extension: "presence" }],
    ] as const
  ) {
    assertEquals(await mayJoin(topic, user), false, topic);
  }
});

Deno.test("a user sends nothing to any topic", async () => {
  await using _ = await broadcasting();
  const ann = crypto.randomUUID();
  const send = sql.begin(async (tx) => {
    await tx`
      select set_config('request.jwt.claims', ${
      JSON.stringify({ sub: ann })
    }, true),
        set_config('realtime.topic', ${`account:${ann}`}, true), set_config('role', 'authenticated', true)`;
    await tx`
      insert into realtime.messages (topic, extension) values (${`account:${ann}`}, 'broadcast')`;
  });
  assertEquals(await send.then(() => "sent", ({ code }) => code), "42501");
});

for (
  const [failure, breakIt] of [
    ["there is no partition for the day", "drop table realtime.messages_today"],
    [
      "realtime.send raises an error",
      `create or replace function realtime.send(
         payload jsonb, event text, topic text, private boolean default true
       ) returns void language plpgsql as $$ begin raise 'broken'; end $$`,
    ],
    [
      "realtime.send is not there",
      "drop function realtime.send(jsonb, text, text, boolean)",
    ],
    ["Realtime is not there at all", "drop schema realtime cascade"],
    [
      "the message is refused",
      "alter table realtime.messages add check (topic is null)",
    ],
  ] as const
) {
  Deno.test(`an event is applied although ${failure}`, async () => {
    await using _ = await broadcasting();
    const subscription = await subscribe(receiver.url, crypto.randomUUID());
    await sql`truncate realtime.messages`;
    await sql.unsafe(breakIt).simple();
    await assertApplied(subscription);
  });
}

Deno.test("an event does not wait for who holds the table of messages", async () => {
  await using _ = await broadcasting();
  const subscription = await subscribe(receiver.url, crypto.randomUUID());
  const held = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const holding = sql.begin(async (tx) => {
    await tx`lock table realtime.messages in access exclusive mode`;
    held.resolve();
    await release.promise;
  });
  await held.promise;
  try {
    await assertApplied(subscription);
    // Without the receiver's own limit for locks, as in the SQL editor.
    await sql.begin(async (tx) => {
      await tx`set local statement_timeout = '60s'`;
      await tx`
        update billing.subscriptions set plan_id = 'price_max'
        where id = ${subscription}`;
    });
  } finally {
    release.resolve();
    await holding;
  }
  // That of the creation.
  assertEquals((await messages()).length, 1);
});

Deno.test("the client joins its private topic as the user, and calls back for changes and after a break", async () => {
  const ann = crypto.randomUUID();
  const realtime = realtimeServer();
  const app = await appOf({ sub: ann }, {
    realtime: {
      transport: realtime.transport,
      heartbeatIntervalMs: 1_000_000,
      reconnectAfterMs: () => 1,
    },
  });
  let calls = 0;
  async function called(times: number): Promise<void> {
    const timeoutMs = HANG_LIMIT_MS;
    assert(await waitUntil(() => calls >= times, { timeoutMs }), `${calls}`);
    assertEquals(calls, times);
  }
  const stop = await code.watchAccount(app, ann, () => calls++);
  const topic = `realtime:account:${ann}`;
  try {
    await called(1);
    assertEquals(
      realtime.joins.map(({ token = "", ...join }) => ({
        ...join,
        user: decodeJwt(token).sub,
      })),
      [{ topic, isPrivate: true, user: ann }],
    );

    realtime.broadcast(topic, "another_event");
    realtime.broadcast(topic, "subscription_changed");
    await called(2);

    realtime.drop();
    await called(3);
    assertEquals(realtime.joins.length, 2);
  } finally {
    await stop();
    await app.realtime.disconnect();
  }
  realtime.broadcast(topic, "subscription_changed");
  assertEquals(calls, 3);
});
