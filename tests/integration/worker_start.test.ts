/**
 * How the worker starts with different settings. The URLs that it refuses are row
 * 61 of the catalogue, and the rest is in the tests of chooseChannel().
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { connect } from "../support/tables.ts";
import { NO_COUNTS, startWorker } from "../support/worker.ts";
import { outboxRow, oweNotifications } from "../support/outbox.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("the worker does not start with a wrong setting, and names it", async () => {
  const secret = "whsec_of-the-tests-and-no-base64";
  const { message } = await assertRejects(
    () =>
      startWorker({
        NOTIFICATION_URL: "https://hooks.test/billing",
        NOTIFICATION_SIGNING_SECRET: secret,
      }),
    Error,
    "Cannot start: NOTIFICATION_SIGNING_SECRET",
  );
  assert(!message.includes(secret), message);
});

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
