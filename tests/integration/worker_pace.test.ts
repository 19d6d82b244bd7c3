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

Deno.test("three workers that are woken together keep to one limit", async () => {
  const { tookMs, rows, requests, turns } = await deliverPaced(sql, {
    count: 200,
    allowed: 2,
    workers: 3,
  });
  assertEquals(rows, { "sent 1": 200 });
  // Each at its own pace, they would be refused more often than not.
  const refused = requests.filter(({ status }) => status === 429);
  assert(refused.length < 20, `${refused.length} refused`);
  assert(turns.filter(({ sent }) => sent > 0).length > 1);
  assert(tookMs < 1.5 * 100_000, `${tookMs} ms`);
});

Deno.test("if the mail API answers slowly, a run still follows each minute", async () => {
  const { tookMs, rows } = await deliverPaced(sql, {
    count: 200,
    allowed: 2,
    latencyMs: 1_500,
    databaseLatencyMs: 100,
  });
  assertEquals(rows, { "sent 1": 200 });
  assert(tookMs < 2 * 100_000, `${tookMs} ms`);
});

Deno.test("a limit that other senders share costs time, and no attempts", async () => {
  const { tookMs, rows, requests } = await deliverPaced(sql, {
    count: 10,
    allowed: 1,
    configured: 10,
  });
  assertEquals(rows, { "sent 1": 10 });
  const refused = requests.filter(({ status }) => status === 429);
  // A run ends with the first 429, and what is under way then.
  assert(refused.length > 0 && refused.length < 40, `${refused.length}`);
  assert(tookMs <= 10 * MINUTE_MS, `${tookMs} ms`);
});
