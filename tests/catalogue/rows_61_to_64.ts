/**
 * Rows 61 to 64: notified endpoints, a worker that crashes, and updates of one
 * second.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { arrivals } from "../support/histories/arrivals.ts";
import { eventBody } from "../support/histories/event_body.ts";
import { renamed } from "../support/histories/history.ts";
import { modelState } from "../support/histories/model.ts";
import {
  type Happening,
  liveThrough,
} from "../support/histories/subscription_life.ts";
import {
  NOTIFICATION_SECRET,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import { serveFunction } from "../support/serve_function.ts";
import { subscriptionRecord } from "../support/tables.ts";
import { NO_COUNTS, startWorker } from "../support/worker.ts";
import {
  endLease,
  makeDue,
  outboxRow,
  oweNotifications,
} from "../support/outbox.ts";
import { signed } from "./body_checks.ts";
import { assertAnswer } from "./outcome.ts";
import type { Row, Stage } from "./stage.ts";

const REFUSED_URLS = [
  "http://example.com/hook",
  "http://169.254.169.254/latest",
  "http://localhost.example.com/hook",
  "ftp://127.0.0.1/hook",
  "https://user:CATALOGUEpassword@example.com/hook",
  "https://CATALOGUEuser@example.com/hook",
  "CATALOGUE no url",
];

const NEUTRAL: Happening = {};

/** The whole old item is sent, and neither plan nor period changed. */
const ITEM: Happening = { item: true };

const BURSTS: readonly (readonly Happening[])[] = [
  [ITEM, { status: "past_due" }],
  [NEUTRAL, { status: "active" }, NEUTRAL],
  [NEUTRAL, { status: "active" }, ITEM, { plan: "two", status: "past_due" }],
];

export const ROWS_61_TO_64: readonly Row[] = [
  {
    row: 61,
    input: "NOTIFICATION_URL not https and not loopback, or with credentials",
    check: async () => {
      await Promise.all(REFUSED_URLS.map(async (url) => {
        const starting = () =>
          serveFunction("billing-worker", {
            env: {
              NOTIFICATION_URL: url,
              NOTIFICATION_SIGNING_SECRET: NOTIFICATION_SECRET,
            },
          });
        const { message } = await assertRejects(
          starting,
          Error,
          "Cannot start",
        );
        assert(message.includes("NOTIFICATION_URL must"), message);
        assert(!message.includes("CATALOGUE"), message);
        assert(!message.includes(NOTIFICATION_SECRET), message);
      }));
    },
  },
  {
    row: 62,
    input: "the notified endpoint redirects, hangs, answers 4xx/5xx/429, 410",
    check: async ({ hostileEndpoint }) => {
      for (
        const { answer, row, arrivals, waits } of await hostileEndpoint.seen
      ) {
        // 429 is answered before anything is looked at: no attempt.
        const attempts = answer === "429" ? 0 : 1;
        assertEquals([answer, arrivals, row.attempts], [answer, 1, attempts]);
        assertEquals(row.status, answer === "410" ? "dead" : "pending", answer);
        assertEquals(row.sent_at, null);
        assert(row.last_error, answer);
        if (answer === "hangs") {
          assertEquals(row.last_error, "no answer within 10000 ms");
        }
        const [least, most] = answer === "429" ? [3_500, 3_605] : [0, 6];
        if (row.status !== "pending") continue;
        assert(waits > least && waits < most, `${answer}: again in ${waits} s`);
      }
      const { tookMs, redirected, log } = await hostileEndpoint.figures;
      assert(tookMs > 9_500 && tookMs < 20_000, `The turn took ${tookMs} ms`);
      assertEquals(redirected, 0, "A redirect was followed");
      assert(!log.includes(NOTIFICATION_SECRET.slice("whsec_".length)), log);
    },
  },
  {
    row: 63,
    input: "crash after sending, before marking",
    check: async ({ sql, hostileEndpoint }) => {
      // Until then, that worker has the queue.
      await hostileEndpoint.figures;
      await using running = new AsyncDisposableStack();
      const endpoint = running.use(startNotifiedEndpoint());
      const killed = running.use(await startWorker(endpoint.env));
      const next = running.use(await startWorker(endpoint.env));
      const held = Promise.withResolvers<void>();
      running.defer(held.resolve);
      const [event] = await oweNotifications(sql);
      endpoint.answerWith(() => held.promise.then(() => new Response("OK")));
      const call = killed.wake().catch(() => "cut off");
      await endpoint.arrived(event);
      await killed.kill();
      assertEquals(await call, "cut off");
      held.resolve();
      endpoint.answerWith(() => new Response("OK"));

      const left = await outboxRow(sql, event);
      assertEquals([left.status, left.attempts], ["pending", 1]);
      // The lease of the run that was killed holds until its end.
      assertEquals(await next.wake(), NO_COUNTS);

      await endLease(sql, "notifications");
      await makeDue(sql, event);
      assertEquals(await next.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
      const row = await outboxRow(sql, event);
      assertEquals([row.status, row.attempts], ["sent", 2]);
      await makeDue(sql, event);
      assertEquals(await next.wake(), NO_COUNTS);
      const ids = endpoint.about(event).map(({ id }) => id);
      assertEquals(ids, [left.id, left.id]);
    },
  },
  {
    row: 64,
    input: "two, three or four updates of one second, in any order",
    check: async (stage) => {
      for (const apiVersion of API_VERSIONS) {
        for (const happenings of BURSTS) {
          const events = liveThrough({
            apiVersion,
            isOfFirst: false,
            start: 0,
            creation: { status: "incomplete", happenings },
            moments: [],
            deletion: undefined,
            afterlife: [],
          }, 0);
          const orders = [...arrivals(events.slice(1))];
          await Promise.all(orders.map(async (order) => {
            const history = { events, deliveries: order };
            await arrive(renamed(history, uniqueId("order")), stage);
          }));
        }
      }
    },
  },
];

async function arrive(
  { events, deliveries }: ReturnType<typeof renamed>,
  stage: Stage,
): Promise<void> {
  for (const event of [...events.slice(0, 1), ...deliveries]) {
    assertAnswer(await signed(stage.stripe, eventBody(event))(), 200);
  }
  const [expected] = modelState(events).records.values();
  const record = await subscriptionRecord(stage.sql, expected?.id ?? "");
  assertEquals(
    [record?.status, record?.plan_id],
    [expected?.status, expected?.plan_id],
  );
}
