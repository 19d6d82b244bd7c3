/**
 * Only callers with one of the project's secret keys may wake the worker, under
 * either name of the environment variable.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { startNotifiedEndpoint } from "../support/notified.ts";
import { outboxRow, oweNotifications } from "../support/queues.ts";
import { post } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { startWorker } from "../support/functions.ts";

const { secret, publishable, anon, serviceRole } = await localKeys();
const SECOND_SECRET = "sb_secret_second_0123456789abcdefghij_klmnopqr";

const sql = connect();
const endpoint = startNotifiedEndpoint();
const secrets = { automation: SECOND_SECRET, default: secret };
/** One has the map of keys, and one the key of older projects alone. */
const [named, legacy] = await Promise.all([
  startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: JSON.stringify(secrets),
  }),
  startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: "",
    SUPABASE_PUBLISHABLE_KEYS: "",
  }),
]);
Deno.test.afterAll(async () => {
  for (const used of [named, legacy, endpoint]) {
    await used[Symbol.asyncDispose]();
  }
  await sql.end();
});

const ACCEPTED = [
  [named, secret],
  [named, SECOND_SECRET],
  [legacy, serviceRole],
] as const;

Deno.test("a worker delivers if it is called with a secret key of its project", async () => {
  for (const [worker, apikey] of ACCEPTED) {
    const [event] = await oweNotifications(sql);
    const answer = await post(worker.url, { headers: { apikey } });
    assertEquals(answer.status, 200, answer.body);
    assertEquals((await outboxRow(sql, event)).status, "sent");
  }
});

const ofOthers = [
  {},
  { apikey: "" },
  { apikey: `${secret.slice(0, -1)}x` },
  { apikey: secret.slice(0, -1) },
  { apikey: secret.toUpperCase() },
  { apikey: publishable },
  { apikey: anon },
  { authorization: `Bearer ${secret}` },
  { authorization: `Bearer ${serviceRole}` },
  { apikey: publishable, authorization: `Bearer ${secret}` },
];
const REFUSED = [
  ...ofOthers.flatMap((headers) =>
    [named, legacy].map((worker) => [worker, headers] as const)
  ),
  [named, { apikey: serviceRole }],
  [legacy, { apikey: secret }],
] as const;

Deno.test("a worker refuses every other caller, with any method, and claims nothing", async () => {
  const [event] = await oweNotifications(sql);
  for (const [worker, headers] of REFUSED) {
    for (const method of ["POST", "GET"]) {
      const init = { method, headers: new Headers(headers) };
      const answer = await post(worker.url, init);
      assertEquals(answer.status, 401, JSON.stringify([method, headers]));
      assertEquals(answer.headers.get("access-control-allow-origin"), null);
      for (const key of [secret, publishable, anon, serviceRole]) {
        assert(!answer.body.includes(key), answer.body);
      }
    }
  }
  const row = await outboxRow(sql, event);
  assertEquals([row.status, row.attempts], ["pending", 0]);
});
