/**
 * Rows 57 to 60 and 65 to 69: events while the database or its API fails, while they are
 * locked, or while somebody repairs them.
 */
import { assert, assertEquals } from "@std/assert";
import { uniqueId } from "../../scripts/events/templates.ts";
import { type Fault, startApiProxy } from "../support/api_proxy.ts";
import { edited } from "../support/edited.ts";
import { startWorker, takeTurn } from "../support/functions.ts";
import { failureOf, repair, requestRetry } from "../support/queues.ts";
import {
  APPLIED,
  assertDiscreet,
  deliver,
  filed,
  INVALID,
  NOT_APPLIED,
  prepare,
  recordOf,
  refused,
  type Rows,
  type Sent,
} from "./deliver.ts";
import {
  creation,
  endpointOf,
  failedInvoice,
  PAYLOAD_MARK,
  type Stage,
  startWithSecrets,
  update,
} from "./stage.ts";

const UNAVAILABLE = filed(503, "database_unavailable");
const LOCKED = filed(503, "record_locked");
const FAULT = filed(500, "deployment_fault");
const NOT_RECORDED = refused(503, "failure_not_recorded");

/** The catalogue says 3 and 10 s; the rest is for a machine that is busy. */
const LATEST_MS = 30_000;
const HUNG_DELIVERIES = 400;

const answer = (status: number, code: string) => ({
  status,
  body: { code, message: "out of order", details: null, hint: null },
});
const DOWN = answer(503, "PGRST000");
const DENIED = answer(403, "42501");

export const OUTAGES: Rows = {
  // The database behind PostgREST is down, or all behind a gateway, or everything.
  "57: database or API down": {
    ...UNAVAILABLE,
    to: "behindFaults",
    sent: [
      ...underFaults(
        DOWN,
        { status: 502, body: "<html>Bad Gateway</html>" },
        { status: 200, body: "<html>Welcome</html>" },
        { status: 200, body: [] },
      ),
      ...storedNowhere(DOWN, DOWN, "PGRST000"),
    ],
    check: async (stage) => {
      await using cutOff = await startWithSecrets({
        SUPABASE_URL: "http://127.0.0.1:9",
      });
      const to = endpointOf(cutOff, "stripe");
      await deliver(stage, { to, ...NOT_RECORDED });
    },
  },
  "58: lock or statement timeout, deadlock, too many connections": {
    ...UNAVAILABLE,
    to: "behindFaults",
    sent: [
      ...underFaults(
        answer(500, "57014"),
        answer(500, "40P01"),
        answer(503, "53300"),
        "hangs",
      ),
      ...underFaults(answer(500, "55P03"))
        .map((sent) => ({ ...LOCKED, ...sent })),
    ],
  },
  "59: missing function or grant": {
    ...FAULT,
    to: "behindFaults",
    sent: [
      ...underFaults(answer(404, "PGRST202")),
      // What Postgres refuses, its message may repeat; the log does not.
      {
        body: creation(),
        faults: {
          billing_apply_events: {
            status: 400,
            body: { ...DENIED.body, code: "22P02", message: PAYLOAD_MARK },
          },
        },
        code: "apply_failed",
        logs: "refused the event with 22P02",
        says: PAYLOAD_MARK,
      },
    ],
    check: withoutGrant,
  },
  "60: recording in failed_events fails as well": {
    to: "behindFaults",
    sent: [
      ...storedNowhere(DENIED, DENIED, "deployment_fault"),
      ...storedNowhere(
        { status: 502, body: "" },
        { status: 200, body: "nonsense" },
        "database_unavailable",
      ),
    ],
  },
  "65: 9,000 numbers such as 1e131071 in an event that fails": {
    check: async (stage) => {
      const { sql } = stage;
      for (const number of ["1e131071", "0e-16383"]) {
        const event = edited(creation(), { "data.object.id": null });
        const numbers = Array(9_000).fill(number).join(",");
        const body = JSON.stringify(event).replace("{", `{"n":[${numbers}],`);
        await deliver(stage, { event, body, kept: "text", ...INVALID });

        const [row] = await sql`
          select octet_length(f::text)::int as bytes from billing.failed_events f
          where event_id = ${event.id}`;
        assert(row?.["bytes"] < 3 * 1024 * 1024, `${row?.["bytes"]} bytes`);

        const waiting = await filedInvoice(stage);
        await requestRetry(sql, event.id);
        await requestRetry(sql, waiting.id);
        const { applied, failed } = await takeWorkersTurn();
        assertEquals({ applied, failed }, { applied: 1, failed: 1 });
        assertEquals((await failureOf(sql, event.id)).attempts, 2);
      }
    },
  },
  "66: an operator's open transaction on a row of failed_events": {
    check: async (stage) => {
      const { sql } = stage;
      const event = await filedInvoice(stage);
      await sql.begin(async (operator) => {
        await operator`
          update billing.failed_events set error = 'being looked at'
          where event_id = ${event.id}`;
        await deliverTogether(stage, { locked: [event], others: 39 });
      });

      assertEquals((await failureOf(sql, event.id)).resolved_at, null);
      await deliver(stage, { body: event, ...APPLIED });
      assertEquals((await failureOf(sql, event.id)).resolution, "applied");
    },
  },
  "67: a subscription that somebody has locked, six events of it among 60": {
    check: async (stage) => {
      const { sql } = stage;
      const subscription = uniqueId("sub");
      await deliver(stage, { body: creation({ subscription }), ...APPLIED });
      const locked = [
        creation({ subscription }),
        ...Array.from({ length: 5 }, () => update({ subscription })),
      ];

      await sql.begin(async (holder) => {
        await holder`
          update billing.subscriptions set account_id = account_id
          where id = ${subscription}`;
        await deliverTogether(stage, { locked, others: 60 });
      });

      for (const body of locked) {
        const { error_code, error } = await failureOf(sql, body.id);
        assertEquals(error_code, "record_locked");
        assert(error.includes("55P03"), error);
        await deliver(stage, { body, ...APPLIED });
      }
    },
  },
  "68: the database's API hangs, hundreds of deliveries": {
    begin: async (stage) => {
      const api = stage.use(await startApiProxy());
      api.fails({
        billing_apply_events: "hangs",
        billing_record_failed_event: "hangs",
      });
      const receiver = stage.use(
        await startWithSecrets({ SUPABASE_URL: api.url }),
      );
      const to = endpointOf(receiver, "stripe");
      const events = Array.from({ length: HUNG_DELIVERIES }, () => creation());
      const answers = Promise.all(
        events.map((body) => prepare(stage, { to, body }).send()),
      );
      answers.catch(() => {}); // reported below

      return async () => {
        for (const { status, headers } of await answers) {
          assertEquals(status, 503);
          assert(Number(headers.get("retry-after")) > 0);
        }

        for (const { id } of events) {
          const { status, duration_ms } = await receiver.logged((line) =>
            line.message === "delivery failed" && line.event_id === id
          );
          assertEquals(status, 503);
          assert(Number(duration_ms) < LATEST_MS, `after ${duration_ms} ms`);
        }

        const [row] = await stage.sql`
          select count(*)::int from (
            select event_id from billing.processed_events union all
            select event_id from billing.failed_events
          ) as kept where event_id = any (${events.map(({ id }) => id)})`;
        assertEquals(row?.["count"], 0);
        assertDiscreet(receiver.output());
      };
    },
  },
  "69: a repair while the worker tries the old payload": {
    check: async (stage) => {
      const { sql } = stage;
      const subscription = uniqueId("sub");
      // Both have one time, or the update may be older and change nothing.
      const created = Math.floor(Date.now() / 1_000);
      const early = update({ subscription, plan: "plan_old", created });
      await deliver(stage, { body: early, ...NOT_APPLIED });
      const body = creation({ subscription, created });
      await deliver(stage, { body, ...APPLIED });
      const repaired = edited(early, {
        "data.object.items.data.0.price.id": "plan_repaired",
      });

      await using api = await startApiProxy();
      await using worker = await startWorker({ SUPABASE_URL: api.url });
      await requestRetry(sql, early.id);
      // The worker has the old payload, which would succeed now.
      api.intercept(
        "billing_apply_events",
        () => repair(sql, early.id, repaired),
      );
      await takeTurn(worker);

      assertEquals((await failureOf(sql, early.id)).resolution, "applied");
      const { plan_id } = await recordOf(stage, subscription);
      assertEquals(plan_id, "plan_repaired");
    },
  },
};

function underFaults(...faults: readonly Fault[]): Sent[] {
  return faults.flatMap((fault) => {
    const body = creation();
    const { code = "" } = typeof fault === "string"
      ? { code: "no answer within" }
      : Object(fault.body);
    return [
      { body, faults: { billing_apply_events: fault }, logs: code, says: code },
      { body, ...APPLIED, resolution: "applied" },
    ];
  });
}

function storedNowhere(apply: Fault, record: Fault, logs: string): Sent[] {
  const body = creation();
  const faults = {
    billing_apply_events: apply,
    billing_record_failed_event: record,
  };
  return [
    { body, faults, logs, ...NOT_RECORDED },
    { body, ...APPLIED },
  ];
}

async function withoutGrant(stage: Stage): Promise<void> {
  const { sql } = stage;
  const body = creation();
  const name = "billing_apply_events";
  const on = `execute on function public.${name}(jsonb)`;
  await sql.unsafe(`revoke ${on} from service_role`);
  try {
    await deliver(stage, { body, says: "42501", logs: name, ...FAULT });
  } finally {
    await sql.unsafe(`grant ${on} to service_role`);
  }
  await deliver(stage, { body, ...APPLIED });
}

async function filedInvoice(stage: Stage) {
  const subscription = uniqueId("sub");
  const invoice = failedInvoice({ subscription });
  await deliver(stage, { body: invoice, ...NOT_APPLIED });
  await deliver(stage, { body: creation({ subscription }), ...APPLIED });
  return invoice;
}

async function takeWorkersTurn(): Promise<Record<string, number>> {
  await using worker = await startWorker({});
  return (await takeTurn(worker)).retries;
}

/** Delivers events, of which only the locked ones get 503; none gets a late answer. */
async function deliverTogether(
  stage: Stage,
  { locked, others }: { locked: readonly object[]; others: number },
): Promise<void> {
  const good = Array.from({ length: others }, () => creation());
  const answers = await Promise.all([...locked, ...good].map(async (body) => {
    const started = performance.now();
    const { status } = await prepare(stage, { body }).send();
    return { status, tookMs: performance.now() - started };
  }));
  assertEquals(
    answers.map(({ status }) => status),
    [...locked.map(() => 503), ...good.map(() => 200)],
  );
  const slowest = Math.max(...answers.map(({ tookMs }) => tookMs));
  assert(slowest < LATEST_MS, `${slowest} ms`);
}
