/**
 * Several workers at one outbox, and workers that die or come back too late.
 * Row 63 of the catalogue is a worker that dies before it settles.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { connect } from "../support/tables.ts";
import { NO_COUNTS, startWorker } from "../support/worker.ts";
import {
  endLease,
  makeDue,
  outboxRow,
  oweNotifications,
} from "../support/outbox.ts";

const WORKERS = 3;
const OWED = 60;

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test(`${WORKERS} workers at once send each of ${OWED} notifications once`, async () => {
  await using stack = new AsyncDisposableStack();
  const endpoint = stack.use(startNotifiedEndpoint());
  const workers = await Promise.all(
    Array.from(
      { length: WORKERS },
      async () => stack.use(await startWorker(endpoint.env)),
    ),
  );
  const events = await oweNotifications(sql, { count: OWED });
  // The first batch is under way while the others try.
  const [first, ...others] = workers;
  const held = Promise.withResolvers<void>();
  endpoint.answerWith(async () => {
    await held.promise;
    return new Response("OK");
  });
  const sent = first!.wake();
  // All are due at the same time: any of them may come first.
  assert(
    await waitUntil(() => endpoint.arrivals.length > 0, {
      timeoutMs: HANG_LIMIT_MS,
    }),
    "nothing arrives",
  );
  for (const other of others) assertEquals(await other.wake(), NO_COUNTS);
  held.resolve();
  assertEquals(await sent, { ...NO_COUNTS, claimed: OWED, sent: OWED });
  assertEquals(
    events.map((event) => endpoint.about(event).length),
    Array(OWED).fill(1),
  );
  assertEquals(endpoint.refused, []);
});

Deno.test("a worker that is killed at the last attempt leaves a notification that is dead", async () => {
  await using endpoint = startNotifiedEndpoint();
  const killed = await startWorker(endpoint.env);
  await using next = await startWorker(endpoint.env);
  const [event] = await oweNotifications(sql);
  await sql`
    update billing.notifications set attempts = 9 where event_id = ${event}`;
  const held = Promise.withResolvers<void>();
  endpoint.answerWith(async () => {
    await held.promise;
    return new Response("OK");
  });

  const call = killed.wake().catch(() => "cut off");
  await endpoint.arrived(event);
  await killed.kill();
  assertEquals(await call, "cut off");
  held.resolve();

  await makeDue(sql, event);
  await endLease(sql, "notifications");
  assertEquals(await next.wake(), NO_COUNTS);
  const row = await outboxRow(sql, event);
  assertEquals(
    [row.status, row.attempts, row.last_error],
    ["dead", 10, "the worker of the last attempt did not report a result"],
  );
  assertEquals(endpoint.about(event).length, 1);
});

Deno.test("a worker that comes back after its lease was taken over changes nothing", async () => {
  await using endpoint = startNotifiedEndpoint();
  await using slow = await startWorker(endpoint.env);
  await using next = await startWorker(endpoint.env);
  const [event] = await oweNotifications(sql);
  const held = Promise.withResolvers<void>();
  endpoint.answerWith(async () => {
    await held.promise;
    return new Response(null, { status: 410 });
  });

  const call = slow.wake();
  await endpoint.arrived(event);
  await makeDue(sql, event);
  await endLease(sql, "notifications");
  endpoint.answerWith(() => new Response(null, { status: 500 }));
  assertEquals(await next.wake(), { ...NO_COUNTS, claimed: 1, failed: 1 });
  const settled = await outboxRow(sql, event);
  assertEquals([settled.status, settled.attempts], ["pending", 2]);

  held.resolve();
  assertEquals(await call, { ...NO_COUNTS, claimed: 1, dead: 1 });
  assertEquals(await outboxRow(sql, event), settled);
});
