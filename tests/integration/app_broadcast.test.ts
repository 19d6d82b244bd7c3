/**
 * docs/app.md: the trigger that broadcasts changes, the policy that says who may listen,
 * and a trigger of the app's own. Realtime's schema is a stand-in.
 */
import { assert, assertEquals } from "@std/assert";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { applySql, sqlOf, subscribe } from "../support/app_page.ts";
import { REALTIME_SQL } from "../support/supabase_extensions.ts";
import { startReceiver } from "../support/functions.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";

const UNDO = `
  drop function if exists public.broadcast_subscription_change cascade;
  drop schema if exists realtime cascade;
`;

const sql = connect();
const receiver = await startReceiver();

Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

async function broadcasting(): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  opened.defer(async () => {
    await sql.unsafe(UNDO).simple();
  });
  const trigger = sqlOf("create trigger broadcast");
  const policy = sqlOf('"Users hear');
  opened.use(await applySql(sql, REALTIME_SQL, trigger, policy));
  return opened.move();
}

async function update(subscription: string): Promise<object> {
  const event = subscriptionEvent("customer.subscription.updated", {
    subscription,
    status: "past_due",
  });
  assertEquals((await deliver(receiver.url, event)).status, 200);
  const { ledger, failures } = await storedEvent(sql, event.id);
  assertEquals(ledger.map(({ outcome }) => outcome), ["applied"]);
  assertEquals(failures, []);
  return event;
}

function messages() {
  return sql`
    select topic, event, private, payload - 'id' as payload
    from realtime.messages order by inserted_at`;
}

Deno.test("the trigger sends a change's subscription to its account's topic, and no more", async () => {
  await using _ = await broadcasting();
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  const ofAnn = await subscribe(receiver.url, ann);
  const ofBen = await subscribe(receiver.url, ben);
  const event = await update(ofAnn);
  assertEquals((await deliver(receiver.url, event)).status, 200);

  const message = (account: string, subscription_id: string) => ({
    topic: `account:${account}`,
    event: "subscription_changed",
    private: true,
    payload: { subscription_id },
  });
  assertEquals(
    (await messages()).map((row) => ({ ...row })),
    [message(ann, ofAnn), message(ben, ofBen), message(ann, ofAnn)],
  );
});

async function mayJoin(
  topic: string,
  { role, sub, extension = "broadcast" }: {
    role: string;
    sub?: string;
    extension?: string;
  },
): Promise<boolean> {
  const rolledBack = new Error("as Realtime does");
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
    throw rolledBack;
  }).catch((error) => assertEquals(error, rolledBack));
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

Deno.test("an event is applied although Realtime is not there", async () => {
  await using _ = await broadcasting();
  const subscription = await subscribe(receiver.url, crypto.randomUUID());
  await sql`drop schema realtime cascade`;
  await update(subscription);
});

Deno.test("an event does not wait for a locked table of messages", async () => {
  await using _ = await broadcasting();
  const subscription = await subscribe(receiver.url, crypto.randomUUID());
  const lock = await sql.reserve();
  await lock`begin`;
  await lock`lock table realtime.messages in access exclusive mode`;

  try {
    await update(subscription);
    // Without the receiver's own limit for locks, as in the SQL editor.
    await sql.begin(async (tx) => {
      await tx`set local statement_timeout = '60s'`;
      await tx`
        update billing.subscriptions set plan_id = 'price_max'
        where id = ${subscription}`;
    });
  } finally {
    await lock`rollback`;
    lock.release();
  }

  // Only the message of the creation is there.
  assertEquals((await messages()).length, 1);
});

Deno.test("a trigger of the app's own writes with each event", async () => {
  await using undo = new AsyncDisposableStack();
  undo.defer(async () => {
    await sql`drop function if exists public.note_change cascade`;
    await sql`drop table if exists public.subscription_history`;
  });
  await sql.unsafe(sqlOf("create trigger note_change")).simple();

  await update(await subscribe(receiver.url, crypto.randomUUID()));

  const history = await sql`select status from public.subscription_history`;
  assertEquals(
    history.map(({ status }) => status),
    ["active", "past_due"],
  );
});
