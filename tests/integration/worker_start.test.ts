/**
 * How the worker starts with different settings: with a channel, without one,
 * or not at all. The URLs that it refuses are row 61 of the catalogue.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { localKeys } from "../../scripts/common/keys.ts";
import { freePort } from "../support/free_port.ts";
import { MAIL_API_KEY } from "../support/mail_api.ts";
import {
  notifiedEnvironment,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import { connect } from "../support/tables.ts";
import { NO_COUNTS, startWorker } from "../support/worker.ts";
import { outboxRow, oweNotifications } from "../support/outbox.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

const REFUSED: Record<string, { env: Record<string, string>; names: string }> =
  {
    "no signing secret": {
      env: { NOTIFICATION_URL: "https://hooks.test/billing" },
      names: "NOTIFICATION_SIGNING_SECRET",
    },
    "a malformed signing secret": {
      env: {
        NOTIFICATION_URL: "https://hooks.test/billing",
        NOTIFICATION_SIGNING_SECRET: "whsec_of-the-tests-and-no-base64",
      },
      names: "NOTIFICATION_SIGNING_SECRET",
    },
    "e-mail without a sender": {
      env: { RESEND_API_KEY: MAIL_API_KEY },
      names: "NOTIFICATION_FROM",
    },
    "a map of keys that is none": {
      env: { SUPABASE_SECRET_KEYS: '{"default":"sb_secret_of_the_tests"' },
      names: "SUPABASE_SECRET_KEYS",
    },
    "no key at all": {
      env: { SUPABASE_SECRET_KEYS: "", SUPABASE_SERVICE_ROLE_KEY: "" },
      names: "SUPABASE_SECRET_KEYS (or SUPABASE_SERVICE_ROLE_KEY)",
    },
  };

for (const [what, { env, names }] of Object.entries(REFUSED)) {
  Deno.test(`the worker does not start with ${what}, and names ${names}`, async () => {
    const { message } = await assertRejects(
      () => startWorker(env),
      Error,
      `Cannot start: ${names}`,
    );
    for (const value of Object.values(env)) {
      assert(value === "" || !message.includes(value), message);
    }
  });
}

Deno.test("without a channel notifications stay pending, and the log says so once", async () => {
  const [event] = await oweNotifications(sql);
  {
    await using worker = await startWorker({});
    assertEquals(await worker.wake(), NO_COUNTS);
    assertEquals(await worker.wake(), NO_COUNTS);
    const warnings = worker.output().split("\n")
      .filter((line) => line.includes("no notification channel is configured"));
    assertEquals(warnings.length, 1, worker.output());
    assertEquals(JSON.parse(`${warnings}`).level, "warn");
  }
  const { status, attempts } = await outboxRow(sql, event);
  assertEquals([status, attempts], ["pending", 0]);

  // They are delivered once there is one.
  await using endpoint = startNotifiedEndpoint();
  await using worker = await startWorker(endpoint.env);
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
  assertEquals(endpoint.about(event).length, 1);
});

Deno.test("with both channels the URL is used, and the log says so", async () => {
  await using endpoint = startNotifiedEndpoint();
  await using worker = await startWorker({
    ...endpoint.env,
    RESEND_API_KEY: MAIL_API_KEY,
    NOTIFICATION_FROM: "Billing <billing@example.com>",
    // Nothing listens there: a mail would be a failed attempt.
    RESEND_BASE_URL: `http://127.0.0.1:${freePort()}`,
  });
  const line = await worker.logged(({ message }) =>
    message ===
      "RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them"
  );
  assertEquals(line.level, "warn");
  const [event] = await oweNotifications(sql);
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
  assertEquals(endpoint.about(event).length, 1);
  assert(!worker.output().includes(MAIL_API_KEY), worker.output());
});

Deno.test("a worker that cannot reach its database says so, and claims nothing", async () => {
  const url = `http://127.0.0.1:${freePort()}`;
  await using worker = await startWorker({
    ...notifiedEnvironment(freePort()),
    SUPABASE_URL: url,
  });
  const [event] = await oweNotifications(sql);
  const answer = await worker.call({
    headers: { apikey: (await localKeys()).secret },
  });
  assertEquals(answer.status, 503);
  assert(!answer.body.includes(url), answer.body);
  const line = await worker.logged(({ message }) => message === "run failed");
  assertEquals([line.level, line.code], ["error", "database_unavailable"]);
  assertEquals((await outboxRow(sql, event)).attempts, 0);
});
