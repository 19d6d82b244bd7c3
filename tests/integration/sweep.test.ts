/** Sweeps, from APIs as unkind as the real ones. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { uniqueId } from "../../scripts/events/templates.ts";
import { handlersPage } from "../support/docs.ts";
import {
  clock,
  DAY,
  HOUR,
  type ListedEvent,
  type ListingFormat,
  MINUTE,
  refusal,
  serveEventApi,
  type What,
} from "../support/event_apis.ts";
import {
  type ServedFunction,
  startReceiver,
  startWorker,
  takeTurn,
  wake,
} from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import {
  NOTIFICATION_SECRET,
  startNotifiedEndpoint,
} from "../support/notified.ts";
import { endLease, endPauses, recordFailure } from "../support/queues.ts";
import { deliver } from "../support/send.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import { connect, emptyTables } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const ago = (ms: number) => new Date(clock.now - ms).toISOString();

const opened = new AsyncDisposableStack();
Deno.test.afterAll(() => opened.disposeAsync());
const sql = connect();
opened.defer(() => sql.end());
const alerts = opened.use(startNotifiedEndpoint());

/** The page's handler of credits, and the same for Paddle, but each run adds a row. */
const HANDLERS = `
  ${handlersPage().handlers.find((text) => /on_checkout/.test(text))}
  create function billing.on_transaction_completed(provider text, event jsonb)
  returns void language sql security definer set search_path = '' as $$
    insert into public.credits (source, account_id, amount)
    values (event #>> '{data,id}', event #>> '{data,custom_data,accountId}', 100);
  $$;`.replaceAll(/primary key|on conflict .* do nothing/g, "");

await sql.unsafe(HANDLERS).simple();
opened.defer(async () => {
  await sql.unsafe(`
    drop table public.credits;
    drop function billing.on_checkout_session_completed,
      billing.on_checkout_session_async_payment_succeeded,
      billing.on_transaction_completed;
    update billing.installation set installed_at = now(), pruned_until = null;
  `).simple();
  await emptyTables(sql);
});

/** What tests of a format share, because it takes long to start. */
async function startShared(format: ListingFormat) {
  const { api, env: keyed } = opened.use(serveEventApi(format));
  const env = {
    ...keyed,
    HANDLE_EVENT_TYPES: api.types.bought,
    NOTIFY: "payment_failed, ended",
    ALERT_URL: alerts.env["NOTIFICATION_URL"]!,
    ALERT_SIGNING_SECRET: NOTIFICATION_SECRET,
  };
  const worker = opened.use(await startWorker(env));
  const receiver = opened.use(await startReceiver({ env }));
  return { ...api, api, env, worker, receiver };
}

const shared = {
  stripe: await startShared("stripe"),
  paddle: await startShared("paddle"),
};
type Scene = typeof shared["stripe"] | typeof shared["paddle"];

/** Tests long after the installation, with nothing in the tables and the APIs. */
function testSweeps(
  name: string,
  run: (scene: Scene) => Promise<void>,
  formats: readonly ListingFormat[] = ["stripe", "paddle"],
) {
  for (const format of formats) {
    Deno.test(`${format}: ${name}`, async () => {
      for (const { api } of Object.values(shared)) {
        Object.assign(api, {
          events: [],
          requests: [],
          faults: [],
          maxPage: 7,
        });
      }
      alerts.arrivals.length = 0;
      clock.now = Date.now();
      await emptyTables(sql);
      await sql`truncate public.credits`;
      await sql`
        update billing.installation
        set installed_at = ${ago(100 * DAY)}, pruned_until = null`;
      await run(shared[format]);
    });
  }
}

type Counts = { listed: number; missed: number };

async function sweep(worker: ServedFunction): Promise<Counts> {
  const { status, body } = await wake(worker, "sweep");
  assertEquals(status, 200, worker.output());
  return JSON.parse(body).sweep;
}

/** Sweeps until a run has come to the end; returns how many events were missing. */
async function sweepAll(worker: ServedFunction): Promise<number> {
  let missed = 0;
  for (let runs = 0; runs < 20; runs++) {
    missed += (await sweep(worker)).missed;
    if ((await state())["rests"] !== "00:00:00") return missed;
  }
  throw new Error("The sweeps come to no end");
}

async function state(): Promise<Record<string, string>> {
  const [row] = await sql`
    select found, last_error, rests::text, swept_until::text, position
    from billing.sweeps where provider = 'a'`;
  return row!;
}

/** As if sweeps had succeeded until then, of further types until other times. */
async function sweptUntil(ms: number, further: Record<string, number>) {
  const times = Object.entries(further).map(([type, ms]) => [type, ago(ms)]);
  const position = `evt_01${(clock.now - ms).toString(32)}`;
  await sql`
    insert into billing.sweeps (provider, swept_until, types, position)
    values ('a', ${ago(ms)}, ${
    sql.json(Object.fromEntries(times))
  }, ${position})`;
}

/** Checks that these alone were missing, and that all are applied once. */
async function assertApplied(
  events: readonly ListedEvent[],
  missed: readonly ListedEvent[] = events,
) {
  await assertLedger(events);
  const found = await sql`
    select type from billing.missed_events, generate_series(1, events)`;
  assertEquals(valuesOf(found), missed.map(({ type }) => type).sort());
  assertEquals((await state())["found"], `${missed.length}`);
}

/** Checks that these are applied, none failed, and each handler ran once. */
async function assertLedger(events: readonly ListedEvent[]) {
  const processed = await sql`select event_id from billing.processed_events`;
  assertEquals(valuesOf(processed), events.map(({ id }) => id).sort());
  const open = await sql`select error from billing.open_failures`;
  assertEquals(valuesOf(open), []);
  const credits = await sql`select source from public.credits`;
  const bought = events.filter(({ type }) => /completed$/.test(type));
  assertEquals(credits.length, bought.length);
  assertEquals(new Set(valuesOf(credits)).size, bought.length);
}

function valuesOf(rows: readonly object[]): string[] {
  return rows.map((row) => Object.values(row).join(" ")).sort();
}

function alertsOf(kind: string): unknown[] {
  return alerts.arrivals.map(({ message: { data } }) => data)
    .filter(({ error_code }) => error_code === kind);
}

/** Makes 20 subscriptions of the last 29 days, whose changes come together. */
async function makeHistory({ api, types }: Scene): Promise<ListedEvent[]> {
  await sweptUntil(30 * DAY - HOUR, { [types.bought]: 30 * DAY - HOUR });
  api.maxPage = 1; // so that it takes many slices
  return Array.from({ length: 20 }, (_, i) => {
    const subscription = { subscription: uniqueId("sub") };
    const make = (what: What, ms: number) => api.make(what, ms, subscription);
    return [
      make("created", 29 * DAY - i * MINUTE),
      make("bought", 25 * DAY - i * MINUTE),
      make("updated", 20 * DAY),
      i % 2 ? make("failed", 15 * DAY) : make("ended", 9 * DAY),
    ];
  }).flat();
}

async function deliverAll(
  { receiver, env }: Scene,
  events: readonly ListedEvent[],
) {
  // The creations first.
  for (const alike of Map.groupBy(events, ({ type }) => type).values()) {
    await Promise.all(alike.map(async ({ body }) => {
      const { status } = await deliver(receiver.url, body, { env });
      assertEquals(status, 200, receiver.output());
    }));
  }
}

const LOSSES: [string, ...What[]][] = [
  [
    "the endpoint was off for 29 days",
    "created",
    "bought",
    "updated",
    "failed",
    "ended",
  ],
  ["a type was not selected", "updated"],
];

for (const [loss, ...whats] of LOSSES) {
  testSweeps(`if ${loss}, each event is applied once`, async (scene) => {
    const { worker, types } = scene;
    const events = await makeHistory(scene);
    const isLost = ({ type }: ListedEvent) =>
      whats.some((what) => types[what] === type);
    await deliverAll(scene, events.filter((event) => !isLost(event)));

    await sweepAll(worker);
    assertEquals(await sweep(worker), { listed: 0, missed: 0 });
    await assertApplied(events, events.filter(isLost));
    const ended = await sql`
      select from billing.subscriptions where status = 'canceled'`;
    assertEquals(ended.length, 10);
  });
}

testSweeps(
  "a killed worker has lost and repeated nothing",
  async (scene) => {
    const events = await makeHistory(scene);
    for (let kills = 0; kills < 3; kills++) {
      await using killed = await startWorker(scene.env);
      const place = Math.floor(Math.random() * events.length);
      const ended = sweepAll(killed).catch(() => {});
      await eventually(async () => {
        const done = await sql`select from billing.processed_events`;
        return done.length >= place;
      });
      await killed.kill();
      await ended;
      await endLease(sql, "sweep");
    }

    await sweepAll(scene.worker);
    await assertApplied(events);
  },
);

testSweeps(
  "what comes by the webhook at the same moment is applied once",
  async (scene) => {
    const events = await makeHistory(scene);
    const [missed] = await Promise.all([
      sweepAll(scene.worker),
      deliverAll(scene, events),
    ]);
    await takeTurn(scene.worker);
    await assertLedger(events);
    assertEquals((await state())["found"], `${missed}`);
  },
);

testSweeps(
  "nothing is applied that is too old, was pruned, or is too new",
  async ({ make, types, worker }) => {
    const sweepAgain = async () => {
      await sql`delete from billing.sweeps`;
      await sweptUntil(29 * DAY, { [types.bought]: 29 * DAY });
      return await sweepAll(worker);
    };
    await sql`update billing.installation set installed_at = ${ago(MINUTE)}`;
    await sweep(worker);
    assertEquals((await state())["rests"], "00:05:00");

    await sql`update billing.installation set installed_at = ${ago(5 * DAY)}`;
    const [_early, first, ...others] = [6 * DAY, 4 * DAY, 3 * DAY, HOUR, MINUTE]
      .map((ms) => make("bought", ms));
    const events = [first!, ...others.slice(0, -1)];
    assertEquals(await sweepAgain(), 3);
    await assertApplied(events);

    // The first had failed before, and a person had resolved it.
    await sql`update billing.processed_events set processed_at = ${
      ago(2 * DAY)
    }`;
    const event_id = first!.id;
    await sql`delete from billing.processed_events where event_id = ${event_id}`;
    await recordFailure(sql, { event_id });
    await sql`
    update billing.failed_events
    set resolved_at = ${ago(2 * DAY)}, resolution = 'by hand'`;
    assertEquals(await sweepAgain(), 0);

    await sql`select billing.prune('1 day', '1 day')`;
    assertEquals(await sweepAgain(), 1);
    assertEquals((await sql`select from billing.failed_events`).length, 0);
  },
);

testSweeps(
  "after any fault, the next run goes on from the same place",
  async ({ api, make, types, worker }) => {
    const later = new Date(Date.now() + 2 * MINUTE).toUTCString();
    const cut = new Blob(['{"data": [']).stream();
    const faults: [Response, error: RegExp, pauseSeconds?: number][] = [
      [refusal(429), /^api_unavailable: .* 429$/, 60],
      [refusal(429, { "retry-after": "120" }), / 429$/, 120],
      [refusal(429, { "retry-after": later }), / 429$/, 120],
      [refusal(500), /^api_unavailable: .* 500$/],
      [refusal(302, { location: "https://elsewhere.test/" }), / 302$/],
      [new Response("<html>"), /^api_unavailable: no JSON/],
      [new Response(cut, { headers: { "content-length": "99" } }), /no JSON/],
      [refusal(401), /^api_key_refused: .* 401: PROVIDER_A_API_KEY must/],
      [refusal(403), /^api_key_refused: .* 403: PROVIDER_A_API_KEY must/],
    ];
    const events = [];
    await sweptUntil(29 * DAY, { [types.bought]: 29 * DAY });
    for (const [fault, error, pauseSeconds] of faults) {
      for (let i = 0; i < 9; i++) events.push(make("created", HOUR));
      const before = await state();
      api.faults = [undefined, fault];
      assertEquals((await sweep(worker)).missed, 0, `${error}`);
      const { last_error, rests, ...place } = await state();
      assertMatch(last_error!, error);
      assertEquals(rests, "00:05:00");
      assertEquals({ ...before, ...place }, before);

      const [pause] = await sql`
      select extract(epoch from paused_until - now())::float as seconds
      from billing.pauses`;
      assertEquals(Boolean(pause), Boolean(pauseSeconds));
      if (pauseSeconds) {
        assert(Math.abs(pause!["seconds"] - pauseSeconds) < 30);
        const requests = api.requests.length;
        await sweep(worker);
        assertEquals(api.requests.length, requests, "it waits");
        await endPauses(sql);
      }
      assertEquals(await sweepAll(worker), 9);
    }
    await assertApplied(events);
    assert(!worker.output().includes(api.key));
  },
);

testSweeps(
  "a place that the API refuses is given up",
  async ({ make, worker }) => {
    await sweptUntil(DAY, {});
    await sql`update billing.sweeps set position = 'gone'`;
    make("created", HOUR);
    await sweep(worker);
    assertEquals(await sweepAll(worker), 1);
  },
  ["paddle"],
);

testSweeps(
  "an event that fails is stored and counted once, one of an erased account is not",
  async ({ make, worker }) => {
    const gone = { account: "acc_gone", subscription: uniqueId("sub") };
    make("created", 3 * HOUR, gone);
    assertEquals(await sweepAll(worker), 1);
    await sql`select billing.erase_account('acc_gone', force => true)`;

    for (const what of ["updated", "failed", "ended"] as const) {
      make(what, HOUR, gone);
    }
    make("created", HOUR, { account: "acc_gone" });
    // Nothing says whose it is.
    const failing = make("failed", HOUR, { account: "" });
    assertEquals(await sweepAll(worker), 1);
    assertEquals(await sweepAll(worker), 0);

    const failures = await sql`
    select event_id, attempts, next_retry_at is null as is_left
    from billing.failed_events`;
    assertEquals(valuesOf(failures), [`${failing.id} 1 false`]);
    assertEquals((await state())["found"], "2");
  },
);

testSweeps(
  "after three days, only ends are notified",
  async ({ make, worker }) => {
    for (const days of [4, 2]) {
      const told = { subscription: `sub_told_${days}` };
      make("created", days * DAY + HOUR, told);
      make("failed", days * DAY, told);
      make("ended", days * DAY - HOUR, told);
      make("failed", days * DAY, { subscription: `sub_early_${days}` });
    }
    await sweepAll(worker);
    for (const days of [4, 2]) {
      make("created", HOUR, { subscription: `sub_early_${days}` });
    }
    await sweepAll(worker);
    await takeTurn(worker);

    const open = await sql`select from billing.open_failures`;
    assertEquals(open.length, 0);
    const notices = await sql`
    select kind, subscription_id from billing.notifications`;
    assertEquals(valuesOf(notices), [
      "ended sub_told_2",
      "ended sub_told_4",
      "payment_failed sub_early_2",
      "payment_failed sub_told_2",
    ]);
  },
);

/** How far all types and that of the handler were swept, and which of its events are due. */
const LISTINGS: [
  string,
  swept: { all: number; type?: number } | undefined,
  due: number[],
][] = [
  ["that is listed and a key that is set only today", undefined, []],
  ["that is listed only today", { all: HOUR }, []],
  ["that was gone for a day", { all: HOUR, type: DAY }, [12 * HOUR]],
  ["that was gone for a month", { all: HOUR, type: 30 * DAY }, []],
  ["that is listed as before, after a month without sweeps", {
    all: 29 * DAY,
    type: 29 * DAY,
  }, [2 * DAY, 12 * HOUR]],
];

for (const [what, swept, due] of LISTINGS) {
  testSweeps(
    `of a type ${what}, the handler gets what is due`,
    async ({ make, worker, types: { bought } }) => {
      if (swept) {
        // Another type is new.
        const types = { "charge.updated": -HOUR };
        const { all, type } = swept;
        await sweptUntil(all, type ? { ...types, [bought]: type } : types);
      }
      const buy = (ms: number) => make("bought", ms, { account: `acc_${ms}` });
      for (const ms of [12 * HOUR, 2 * DAY]) {
        buy(ms);
        make("created", ms);
      }
      const assertCredited = async (...due: number[]) => {
        await sweepAll(worker);
        const rows = await sql`select account_id from public.credits`;
        assertEquals(valuesOf(rows), due.map((ms) => `acc_${ms}`).sort());
      };
      await assertCredited(...due);

      // Two hours later.
      await sql`
      update billing.sweeps set
        swept_until = swept_until - interval '2 hours',
        types = jsonb_build_object(
          ${bought}::text,
          (types ->> ${bought})::timestamptz - interval '2 hours'
        )`;
      // Before the first sweep.
      if (due.length === 0) buy(2.5 * HOUR);
      buy(HOUR);
      await assertCredited(...due, HOUR);
    },
  );
}

testSweeps(
  "alerts say what never arrived, once an hour",
  async ({ make, worker, types }) => {
    const alert = {
      error_code: "events_missed",
      provider: "a",
      missed: 3,
      types: { [types.created]: 2, [types.failed]: 1 },
    };
    for (let i = 0; i < 2; i++) {
      make("created", HOUR);
      make("created", HOUR);
      make("failed", HOUR);
      await sweepAll(worker);
    }
    await takeTurn(worker);
    assertEquals(alertsOf("events_missed"), [alert]);
    const [health] = await sql`
    select missed_events::int as missed, last_swept_at > ${ago(0)} as is_swept
    from billing.health`;
    assertEquals({ ...health }, { missed: 6, is_swept: true });
    await worker.logged(({ message, counts }) =>
      message === "events swept" && (counts as Counts).missed === 3
    );

    await sql`update billing.alerts set alerted_at = ${ago(61 * MINUTE)}`;
    await takeTurn(worker);
    await takeTurn(worker);
    assertEquals(alertsOf("events_missed"), [alert, alert]);
  },
);

testSweeps(
  "a refused key, and three hours without success, are alerts",
  async ({ api, worker }) => {
    api.faults = [refusal(403), refusal(500), refusal(500)];
    await takeTurn(worker);
    assertEquals(alertsOf("api_key_refused").length, 1);

    await sweep(worker);
    await takeTurn(worker);
    assertEquals(alertsOf("sweep_failed"), []);
    await sql`update billing.sweeps set wanted_since = ${ago(4 * HOUR)}`;
    await takeTurn(worker);
    await takeTurn(worker);
    assertEquals(alertsOf("sweep_failed").length, 1);
    assertEquals(alertsOf("api_key_refused").length, 1);
  },
);

testSweeps(
  "without a key, or with a full one, no request is made",
  async ({ api, env }) => {
    const full = api.key.replace(/^[^_]+/, "sk");
    for (const key of ["", full]) {
      await using worker = await startWorker({
        ...env,
        PROVIDER_A_API_KEY: key,
      });
      await takeTurn(worker);
      assertEquals(await sweep(worker), { listed: 0, missed: 0 });
      assertEquals(api.requests, []);
      assertEquals(alertsOf("api_key_refused").length, key ? 1 : 0);
      assert(!worker.output().includes(full));
    }
  },
);
testSweeps(
  "of many types, one that the API refuses is left out, and named",
  async ({ api, env, make, types }) => {
    const others = Array.from({ length: 30 }, (_, i) => `tax.rate_${i}`);
    const further = [...others, types.bought];
    const HANDLE_EVENT_TYPES = further.join();
    await using worker = await startWorker({ ...env, HANDLE_EVENT_TYPES });
    await sweptUntil(
      DAY,
      Object.fromEntries(further.map((type) => [type, DAY])),
    );
    api.unknownTypes.add("tax.rate_9");
    const events = [make("created", 2 * HOUR), make("bought", HOUR)];
    await sweepAll(worker);
    await assertApplied(events);
    assertEquals(
      (await state())["last_error"],
      "api_refused: The API does not know, and leaves out: tax.rate_9",
    );
  },
  ["stripe"],
);

testSweeps(
  "each provider has its own sweep, and knows the other's events",
  async ({ api, env, make }) => {
    const { api: other, env: { PROVIDER_A_API_URL: url } } = shared.paddle;
    await using worker = await startWorker({
      ...env,
      PROVIDER_B_FORMAT: "paddle",
      PROVIDER_B_API_KEY: other.key,
      PROVIDER_B_API_URL: url,
    });
    const { id: claimed } = make("created", HOUR);
    await sql`
    insert into billing.processed_events (provider, event_id, type)
    values ('b', ${claimed}, 'x')`;
    const { id: event_id } = make("created", HOUR);
    await recordFailure(sql, { provider: "b", event_id });
    assertEquals(await sweep(worker), { listed: 2, missed: 0 });

    api.faults = [refusal(500)];
    other.make("created", HOUR);
    assertEquals(await sweep(worker), { listed: 1, missed: 1 });
    assertMatch((await state())["last_error"]!, /500$/);
    await sweep(worker);
    assertEquals((await state())["found"], "0");
  },
  ["stripe"],
);

testSweeps(
  "the schedule has a sweep made once an hour, by a run of its own if possible",
  async ({ api, worker }) => {
    const takeTurns = async () => {
      await takeTurn(worker);
      await takeTurn(worker);
      await sql`
      update billing.sweeps set last_run_at = last_run_at - interval '1 hour'`;
      await takeTurn(worker);
    };
    await takeTurns();
    assertEquals(api.requests.length, 2);

    await using _extensions = await installSupabaseExtensions(
      setting("TEST_PG_SHARE_DIR"),
    );
    await sql`
    select billing.schedule_worker('https://ref.supabase.co', 'sb_secret_1')`;
    await using undone = new AsyncDisposableStack();
    undone.defer(async () => {
      await sql`select billing.unschedule_worker()`;
      await sql`drop extension pg_cron, pg_net, supabase_vault`;
      await sql`drop schema if exists vault`;
    });
    await takeTurns();
    const wakes = await sql`select url from net.http_request_queue`;
    assertEquals(valuesOf(wakes), [
      "https://ref.supabase.co/functions/v1/billing-worker?queue=sweep",
    ]);
    assertEquals(api.requests.length, 2);
  },
);
