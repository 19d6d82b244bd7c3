/**
 * Only callers with one of the project's secret keys may wake the worker, under
 * either name of the environment variable.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { localKeys } from "../../scripts/common/keys.ts";
import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { connect } from "../support/tables.ts";
import { startWorker, type TestWorker } from "../support/worker.ts";
import { outboxRow, oweNotifications } from "../support/outbox.ts";

const keys = await localKeys();
const SECOND_SECRET = "sb_secret_second_0123456789abcdefghij_klmnopqr";

const sql = connect();
const endpoint = startNotifiedEndpoint();
const [named, legacy] = await Promise.all([
  startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: JSON.stringify({
      automation: SECOND_SECRET,
      default: keys.secret,
    }),
  }),
  startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: "",
    SUPABASE_PUBLISHABLE_KEYS: "",
  }),
]);
Deno.test.afterAll(async () => {
  await Promise.all([named, legacy].map((it) => it[Symbol.asyncDispose]()));
  await endpoint[Symbol.asyncDispose]();
  await sql.end();
});

/** Passes when the call is answered so and nothing is claimed. */
async function assertRefused(
  worker: TestWorker,
  init: RequestInit,
): Promise<void> {
  const [event] = await oweNotifications(sql);
  const answer = await worker.call(init);
  assertEquals(answer.status, 401, answer.body);
  assertEquals(answer.headers.get("access-control-allow-origin"), null);
  for (const key of Object.values(keys)) {
    assert(!answer.body.includes(key), answer.body);
  }
  const row = await outboxRow(sql, event);
  assertEquals([row.status, row.attempts], ["pending", 0]);
  assertEquals(endpoint.about(event), []);
}

/** Checks that the call delivers a notification. */
async function assertDelivers(
  worker: TestWorker,
  init: RequestInit,
): Promise<void> {
  const [event] = await oweNotifications(sql);
  const answer = await worker.call(init);
  assertEquals(answer.status, 200, answer.body);
  assertEquals(JSON.parse(answer.body).notifications.sent, 1);
  assertEquals((await outboxRow(sql, event)).status, "sent");
  assertEquals(endpoint.about(event).length, 1);
}

const REFUSED: Record<string, Record<string, string>> = {
  "no key": {},
  "an empty key": { apikey: "" },
  "a wrong key": { apikey: `${keys.secret.slice(0, -1)}x` },
  "a part of the key": { apikey: keys.secret.slice(0, -1) },
  "the key in other letters": { apikey: keys.secret.toUpperCase() },
  "a publishable key": { apikey: keys.publishable },
  "the anon key": { apikey: keys.anon },
  "the secret key as Bearer only": { authorization: `Bearer ${keys.secret}` },
  "the service_role key as Bearer only": {
    authorization: `Bearer ${keys.serviceRole}`,
  },
  "a publishable key, and the secret key as Bearer": {
    apikey: keys.publishable,
    authorization: `Bearer ${keys.secret}`,
  },
};

for (const [what, headers] of Object.entries(REFUSED)) {
  Deno.test(`${what} is refused`, async () => {
    await assertRefused(named, { headers });
    await assertRefused(legacy, { headers });
  });
}

Deno.test("each secret key of the map is accepted", async () => {
  await assertDelivers(named, { headers: { apikey: keys.secret } });
  await assertDelivers(named, { headers: { apikey: SECOND_SECRET } });
});

Deno.test("the service_role key is accepted if it is the only one", async () => {
  await assertDelivers(legacy, { headers: { apikey: keys.serviceRole } });
});

Deno.test("the service_role key is refused if there is a map of secret keys", async () => {
  await assertRefused(named, { headers: { apikey: keys.serviceRole } });
});

Deno.test("a key that the project does not have is refused if the service_role key is the only one", async () => {
  await assertRefused(legacy, { headers: { apikey: keys.secret } });
});

Deno.test("GET without a key is refused before its method is looked at", async () => {
  await assertRefused(named, { method: "GET" });
});
