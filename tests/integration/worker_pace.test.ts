/**
 * E-mails at the mail API's limit, in virtual time: the real database, channel
 * and package, and a stand-in for the API that enforces its limit. Row 71 of
 * the catalogue is the same with 2,000 e-mails.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { deliverPaced } from "../support/paced_delivery.ts";
import { connect } from "../support/tables.ts";

const MINUTE_MS = 60_000;

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("three workers at once keep to one limit", async () => {
  const { tookMs, rows, requests, turns } = await deliverPaced(sql, {
    count: 200,
    allowed: 2,
    workers: 3,
  });
  assertEquals(rows, { "sent 1": 200 });
  // Each at a pace of its own, they would be refused more often than not.
  const refused = requests.filter(({ status }) => status === 429);
  assert(refused.length < 20, `${refused.length} refused`);
  assert(turns.filter(({ sent }) => sent > 0).length > 2);
  assert(tookMs < 1.5 * 100_000, `${tookMs} ms`);
});

Deno.test("a mail API that answers slowly gets as many mails per second", async () => {
  const { tookMs, rows } = await deliverPaced(sql, {
    count: 200,
    allowed: 2,
    latencyMs: 1_500,
    databaseLatencyMs: 100,
  });
  assertEquals(rows, { "sent 1": 200 });
  // One batch after the other, it would take 165 s.
  assert(tookMs < 1.5 * 100_000, `${tookMs} ms`);
});

Deno.test("a limit that other senders share costs time, and no attempts", async () => {
  const { tookMs, rows, requests } = await deliverPaced(sql, {
    count: 60,
    allowed: 1,
    configured: 10,
  });
  assertEquals(rows, { "sent 1": 60 });
  const refused = requests.filter(({ status }) => status === 429);
  assert(refused.length > 0);
  // What is under way when the first is refused, and no more.
  assert(refused.length < 4 * 60, `${refused.length} refused`);
  assert(tookMs < 5 * MINUTE_MS, `${tookMs} ms`);
});
