/** Sweeps of the worker, from APIs that are as unkind as the real ones. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  providerSettings,
  signatureHeaders,
} from "../../scripts/common/sign.ts";
import { uniqueId } from "../../scripts/events/templates.ts";
import { LOCAL_SIGNING_SECRETS } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { handlersPage } from "../support/docs.ts";
import {
  DAY,
  type Fault,
  HOUR,
  type ListedEvent,
  LISTING_FORMATS,
  type ListingFormat,
  MINUTE,
  serveEventApi,
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
import { post } from "../support/send.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import { connect, emptyTables } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const FORMATS = Object.keys(LISTING_FORMATS) as ListingFormat[];
/** When the test began. */
let now = Date.now();
const ago = (ms: number) => new Date(now - ms).toISOString();

const opened = new AsyncDisposableStack();
Deno.test.afterAll(() => opened.disposeAsync());
const sql = connect();
opened.defer(() => sql.end());
const alerts = opened.use(startNotifiedEndpoint());

/** An API, and functions that tests share because they take long to start. */
async function startShared(format: ListingFormat) {
  const { types } = LISTING_FORMATS[format];
  const api = opened.use(serveEventApi(format));
  const env = {
    ...api.env,
    HANDLE_EVENT_TYPES: types.bought,
    NOTIFY: "payment_failed, ended",
    ALERT_URL: alerts.env["NOTIFICATION_URL"]!,
    ALERT_SIGNING_SECRET: NOTIFICATION_SECRET,
  };
  const worker = opened.use(await startWorker(env));
  const receiver = opened.use(await startReceiver({ env }));
  return { types, api, make: api.make, env, worker, receiver };
}

const shared = {
  stripe: await startShared("stripe"),
  paddle: await startShared("paddle"),
};

/** The page's handler of credits, the same for Paddle, and a table of their runs. */
const HANDLERS = `
  ${handlersPage().handlers.find((text) => /on_checkout/.test(text))}
  create function billing.on_transaction_completed(provider text, event jsonb)
  returns void language sql security definer set search_path = '' as $$
    insert into public.credits (source, account_id, amount)
    values (event #>> '{data,id}', event #>> '{data,custom_data,accountId}', 100)
    on conflict (source) do nothing;
  $$;
  create table public.handler_runs (source text);
  create function public.count_run() returns trigger
  language plpgsql security definer set search_path = '' as $$
    begin
      insert into public.handler_runs values (new.source);
      return new;
    end;
  $$;
  create trigger count_run before insert on public.credits
    for each row execute function public.count_run();`;

const NO_HANDLERS = `
  drop table public.credits, public.handler_runs cascade;
  drop function billing.on_checkout_session_completed,
    billing.on_checkout_session_async_payment_succeeded,
    billing.on_transaction_completed, public.count_run;
  update billing.installation set installed_at = now(), pruned_until = null;`;

type Shared = typeof shared["stripe"];

/** Begins long after the installation, with nothing in the tables and the API. */
async function begin(format: ListingFormat): Promise<Shared & AsyncDisposable> {
  for (const { api } of Object.values(shared)) {
    Object.assign(api, { events: [], requests: [], faults: [], maxPage: 7 });
  }
  alerts.arrivals.length = 0;
  now = Date.now();
  await emptyTables(sql);
  await sql`update billing.installation set installed_at = ${ago(100 * DAY)}`;
  await sql.unsafe(HANDLERS).simple();
  return {
    ...shared[format],
    async [Symbol.asyncDispose]() {
      await sql.unsafe(NO_HANDLERS).simple();
      await emptyTables(sql);
    },
  };
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

/** As if sweeps had succeeded until then. */
async function sweptUntil(ms: number, types: Record<string, string>) {
  const position = `evt_01${(now - ms).toString(32)}`;
  await sql`
    insert into billing.sweeps (provider, swept_until, types, position)
    values ('a', ${ago(ms)}, ${sql.json(types)}, ${position})`;
}

function listedFor(ms: number, { types: { bought } }: Shared) {
  return sweptUntil(ms, { [bought]: ago(ms) });
}

const idsOf = (events: readonly ListedEvent[]) =>
  events.map(({ id }) => id).sort();

/** Checks that these were missing and no others, and that all are applied once. */
async function assertApplied(
  events: readonly ListedEvent[],
  missed: readonly ListedEvent[] = events,
) {
  await assertLedger(events);
  const found = await sql`
    select type, sum(events)::int as events
    from billing.missed_events group by type`;
  const byType = Map.groupBy(missed, ({ type }) => type);
  assertEquals(
    new Map(found.map(({ type, events }) => [type, events])),
    new Map(Array.from(byType, ([type, { length }]) => [type, length])),
  );
  assertEquals((await state())["found"], `${missed.length}`);
  const open = await sql`select error from billing.failed_events`;
  assertEquals([...open], []);
}

/** Checks that these are applied, and that each handler ran once. */
async function assertLedger(events: readonly ListedEvent[]) {
  const processed = await sql`select event_id from billing.processed_events`;
  assertEquals(processed.map(({ event_id }) => event_id).sort(), idsOf(events));
  const runs = await sql`select source from public.handler_runs`;
  const bought = events.filter(({ type }) => /completed$/.test(type));
  assertEquals(runs.length, bought.length);
  assertEquals(new Set(runs.map(({ source }) => source)).size, runs.length);
}

/** Twenty subscriptions of the last 29 days, whose changes come at the same moment. */
function makeHistory({ api, make }: Shared): ListedEvent[] {
  api.maxPage = 1; // so that it takes many slices
  return Array.from({ length: 20 }, (_, i) => {
    const subscription = uniqueId("sub");
    const at = (ms: number) => ({ at: now - ms, subscription });
    return [
      make("created", at(29 * DAY - i * MINUTE)),
      make("bought", at(25 * DAY - i * MINUTE)),
      make("updated", at(20 * DAY)),
      i % 2 ? make("failed", at(15 * DAY)) : make("ended", at(9 * DAY)),
    ];
  }).flat();
}

async function deliver(
  { receiver, env }: Shared,
  events: readonly ListedEvent[],
) {
  const settings = providerSettings({ ...LOCAL_SIGNING_SECRETS, ...env }, "a");
  // The creations first.
  for (const alike of Map.groupBy(events, ({ type }) => type).values()) {
    await Promise.all(alike.map(async (event) => {
      const body = JSON.stringify(event.body);
      const headers = signatureHeaders({ ...settings, body });
      const { status } = await post(receiver.url, { headers, body });
      assertEquals(status, 200, receiver.output());
    }));
  }
}

const LOSSES: [string, (event: ListedEvent, shared: Shared) => boolean][] = [
  ["the endpoint was off for 29 days", () => true],
  ["a type was not selected", ({ type }, { types }) => type === types.updated],
  [
    "the secret was wrong for a week",
    ({ atMs }) => atMs > now - 16 * DAY && atMs < now - 8 * DAY,
  ],
];

const FAULTED: [Fault, error: RegExp, pauseSeconds?: number][] = [
  ["429", /^api_unavailable: .* 429$/, 60],
  ["429 for seconds", /^api_unavailable: .* 429$/, 120],
  ["429 until a date", /^api_unavailable: .* 429$/, 120],
  ["500", /^api_unavailable: .* 500$/],
  ["a redirect", /^api_unavailable: .* 302$/],
  ["HTML", /^api_unavailable: no JSON/],
  ["breaks off", /^api_unavailable: no JSON/],
  ["401", /^api_key_refused: .* 401: PROVIDER_A_API_KEY must/],
  ["403", /^api_key_refused: .* 403: PROVIDER_A_API_KEY must/],
];

/** How far all types and that of the handler were swept, and which of its events are due. */
const LISTINGS: [
  string,
  Record<"all" | "type", number> | undefined,
  due: number[],
][] = [
  ["that is listed and a key that is set only today", undefined, []],
  ["that is listed only today", { all: HOUR, type: -1 }, []],
  ["that was gone for a day", { all: HOUR, type: DAY }, [HOUR * 12]],
  ["that was gone for a month", { all: HOUR, type: 30 * DAY }, []],
  ["that is listed as before, after a month without sweeps", {
    all: 29 * DAY,
    type: 29 * DAY,
  }, [2 * DAY, 12 * HOUR]],
];

for (const format of FORMATS) {
  for (const [loss, isLost] of LOSSES) {
    Deno.test(`${format}: if ${loss}, each event is applied once`, async () => {
      await using scene = await begin(format);
      const { worker } = scene;
      await listedFor(29 * DAY + HOUR, scene);
      const events = makeHistory(scene);
      const lost = events.filter((event) => isLost(event, scene));
      await deliver(scene, events.filter((event) => !lost.includes(event)));

      assertEquals(await sweepAll(worker), lost.length);
      await assertApplied(events, lost);
      const ended = await sql`
        select from billing.subscriptions where status = 'canceled'`;
      assertEquals(ended.length, 10);
      assertEquals(await sweep(worker), { listed: 0, missed: 0 });
      await assertApplied(events, lost);
    });
  }

  Deno.test(`${format}: a worker that is killed anywhere has lost and repeated nothing`, async () => {
    await using scene = await begin(format);
    await listedFor(29 * DAY + HOUR, scene);
    const events = makeHistory(scene);
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
  });

  Deno.test(`${format}: what comes by the webhook at the same moment is applied once`, async () => {
    await using scene = await begin(format);
    await listedFor(29 * DAY + HOUR, scene);
    const events = makeHistory(scene);
    const [missed] = await Promise.all([
      sweepAll(scene.worker),
      deliver(scene, events),
    ]);
    await takeTurn(scene.worker);

    const open = await sql`
      select error from billing.failed_events where resolved_at is null`;
    assertEquals([...open], []);
    await assertLedger(events);
    assertEquals((await state())["found"], `${missed}`);
  });

  Deno.test(`${format}: nothing is applied from before the installation, what was pruned, and the last ten minutes`, async () => {
    await using scene = await begin(format);
    const { make, worker } = scene;
    await listedFor(29 * DAY, scene);
    await sql`update billing.installation set installed_at = ${ago(5 * DAY)}`;
    const at = (ms: number) => ({ at: now - ms });
    make("bought", at(6 * DAY));
    const events = [4 * DAY, 3 * DAY, HOUR].map((ms) => make("bought", at(ms)));
    make("bought", at(MINUTE));
    await sweepAll(worker);
    await assertApplied(events);

    // The first had failed before, and a person had resolved it.
    await sql`update billing.processed_events set processed_at = ${
      ago(2 * DAY)
    }`;
    const [{ id: event_id }] = events as [ListedEvent];
    await sql`delete from billing.processed_events where event_id = ${event_id}`;
    await recordFailure(sql, { event_id });
    await sql`
      update billing.failed_events
      set resolved_at = ${ago(2 * DAY)}, resolution = 'by hand'`;
    const sweepAgain = async () => {
      await sql`delete from billing.sweeps`;
      await listedFor(29 * DAY, scene);
      return await sweepAll(worker);
    };
    assertEquals(await sweepAgain(), 0);

    await sql`select billing.prune('1 day', '1 day')`;
    assertEquals(await sweepAgain(), 1);
    assertEquals((await sql`select from billing.failed_events`).length, 0);
  });

  Deno.test(`${format}: whatever the API answers, the next run goes on from the same place`, async () => {
    await using scene = await begin(format);
    const { api, make, worker } = scene;
    const events = [];
    await listedFor(29 * DAY, scene);
    for (const [fault, error, pauseSeconds] of FAULTED) {
      for (let i = 0; i < 9; i++) {
        events.push(make("created", { at: now - HOUR }));
      }
      const before = await state();
      api.faults = [undefined, fault];
      assertEquals((await sweep(worker)).missed, 0, fault);
      const { last_error, rests, ...place } = await state();
      assertMatch(last_error!, error);
      assertEquals(rests, /^40/.test(fault) ? "01:00:00" : "00:05:00");
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
  });

  Deno.test(`${format}: an event that fails is stored and counted once; one of an erased account is neither`, async () => {
    await using scene = await begin(format);
    const { make, worker } = scene;
    const gone = { account: "acc_gone", subscription: uniqueId("sub") };
    make("created", { ...gone, at: now - 3 * HOUR });
    assertEquals(await sweepAll(worker), 1);
    await sql`select billing.erase_account('acc_gone', force => true)`;

    for (const what of ["updated", "failed", "ended"] as const) {
      make(what, { ...gone, at: now - HOUR });
    }
    make("created", { account: "acc_gone", at: now - HOUR });
    // Nothing says whose it is.
    const failing = make("failed", { account: "", at: now - HOUR });
    assertEquals(await sweepAll(worker), 1);
    assertEquals(await sweepAll(worker), 0);

    const failures = await sql`
      select event_id, attempts, next_retry_at is null as is_left
      from billing.failed_events`;
    assertEquals(failures.map((row) => Object.values(row)), [
      [failing.id, 1, false],
    ]);
    assertEquals((await state())["found"], "2");
  });

  Deno.test(`${format}: an event older than three days notifies nobody, unless a subscription has ended`, async () => {
    await using scene = await begin(format);
    const { make, worker } = scene;
    for (const days of [4, 2]) {
      const at = (of: string, ms: number) => ({
        subscription: `sub_${of}_${days}`,
        at: now - days * DAY + ms,
      });
      make("created", at("told", -HOUR));
      make("failed", at("told", 0));
      make("ended", at("told", HOUR));
      make("failed", at("early", 0));
    }
    await sweepAll(worker);
    for (const days of [4, 2]) {
      make("created", { subscription: `sub_early_${days}`, at: now - HOUR });
    }
    await sweepAll(worker);
    await takeTurn(worker);

    const open = await sql`select from billing.open_failures`;
    assertEquals(open.length, 0);
    const notices = await sql`
      select kind, subscription_id from billing.notifications
      order by kind, subscription_id`;
    assertEquals(notices.map((row) => Object.values(row).join(" ")), [
      "ended sub_told_2",
      "ended sub_told_4",
      "payment_failed sub_early_2",
      "payment_failed sub_told_2",
    ]);
  });

  for (const [what, swept, due] of LISTINGS) {
    Deno.test(`${format}: of a type ${what}, the handler gets what is due`, async () => {
      await using scene = await begin(format);
      const { make, worker, types: { bought } } = scene;
      if (swept) {
        const { all, type } = swept;
        // Another type is new.
        const types = { "charge.updated": ago(-HOUR), [bought]: ago(type) };
        if (type < 0) delete types[bought];
        await sweptUntil(all, types);
      }
      const at = (ms: number) => ({ at: now - ms, account: `acc_${ms}` });
      for (const ms of [12 * HOUR, 2 * DAY]) {
        make("bought", at(ms));
        make("created", at(ms));
      }
      await sweepAll(worker);
      assertEquals(await credited(), due.map((ms) => `acc_${ms}`));

      // Two hours later.
      await sql`
        update billing.sweeps set
          swept_until = swept_until - interval '2 hours',
          types = jsonb_build_object(
            ${bought}::text,
            (types ->> ${bought})::timestamptz - interval '2 hours'
          )`;
      // Before the first sweep.
      if (due.length === 0) make("bought", at(2.5 * HOUR));
      make("bought", at(HOUR));
      await sweepAll(worker);
      assertEquals(
        await credited(),
        [...due, HOUR].map((ms) => `acc_${ms}`).sort(),
      );
    });
  }

  Deno.test(`${format}: alerts say what never arrived, once an hour`, async () => {
    await using scene = await begin(format);
    const { make, worker, types } = scene;
    const lose = () => {
      make("created", { at: now - HOUR });
      make("created", { at: now - HOUR });
      make("failed", { at: now - HOUR });
    };
    const alert = {
      error_code: "events_missed",
      provider: "a",
      missed: 3,
      types: { [types.created]: 2, [types.failed]: 1 },
    };
    lose();
    await sweepAll(worker);
    lose();
    await sweepAll(worker);
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
  });

  Deno.test(`${format}: a key that is refused, and three hours without success, are alerts`, async () => {
    await using scene = await begin(format);
    const { api, worker } = scene;
    api.faults = ["403", "500", "500"];
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
  });
}

async function credited(): Promise<string[]> {
  const rows = await sql`select account_id from public.credits order by 1`;
  return rows.map(({ account_id }) => account_id);
}

function alertsOf(kind: string): unknown[] {
  return alerts.arrivals.map(({ message: { data } }) => data)
    .filter(({ error_code }) => error_code === kind);
}

Deno.test("without a key, or with a full one, no request is made", async () => {
  await using scene = await begin("stripe");
  const { api, env } = scene;
  const full = api.key.replace(/^[^_]+/, "sk");
  for (const key of [undefined, full]) {
    await using worker = await startWorker({
      ...env,
      PROVIDER_A_API_KEY: key ?? "",
    });
    await takeTurn(worker);
    assertEquals(await sweep(worker), key && { listed: 0, missed: 0 });
    assertEquals(api.requests, []);
    assertEquals(alertsOf("api_key_refused").length, key ? 1 : 0);
    assert(!worker.output().includes(full));
  }
});

Deno.test("of more types than a request may name, one that the API refuses is left out, and named", async () => {
  await using scene = await begin("stripe");
  const { api, env, make, types } = scene;
  const others = Array.from({ length: 30 }, (_, i) => `tax.rate_${i}`);
  const further = [...others, types.bought];
  await using worker = await startWorker({
    ...env,
    HANDLE_EVENT_TYPES: further.join(),
  });
  await sweptUntil(
    DAY,
    Object.fromEntries(further.map((type) => [type, ago(DAY)])),
  );
  api.unknownTypes.add("tax.rate_9");
  const events = [
    make("created", { at: now - 2 * HOUR }),
    make("bought", { at: now - HOUR }),
  ];
  await sweepAll(worker);
  await assertApplied(events);
  assertEquals(
    (await state())["last_error"],
    "api_refused: The API does not know, and leaves out: tax.rate_9",
  );
});

Deno.test("each provider has its own sweep, and an event that either has is known", async () => {
  await using scene = await begin("stripe");
  const { api, env, make } = scene;
  const { api: other } = shared.paddle;
  await using worker = await startWorker({
    ...env,
    PROVIDER_B_FORMAT: "paddle",
    PROVIDER_B_API_KEY: other.key,
    PROVIDER_B_API_URL: other.env.PROVIDER_A_API_URL,
  });
  const [claimed, failed] = [1, 2].map(() =>
    make("created", { at: now - HOUR })
  );
  await sql`
    insert into billing.processed_events (provider, event_id, type)
    values ('b', ${claimed!.id}, 'x')`;
  await recordFailure(sql, { provider: "b", event_id: failed!.id });
  assertEquals(await sweep(worker), { listed: 2, missed: 0 });

  api.faults = ["500"];
  other.make("created", { at: now - HOUR });
  assertEquals(await sweep(worker), { listed: 1, missed: 1 });
  assertMatch((await state())["last_error"]!, /500$/);
});

Deno.test("the schedule has a sweep made once an hour, by a run of its own where that can be woken", async () => {
  await using scene = await begin("stripe");
  const { api, worker } = scene;
  const anHourLater = () =>
    sql`update billing.sweeps set last_run_at = last_run_at - interval '1 hour'`;
  await takeTurn(worker);
  await takeTurn(worker);
  assertEquals(api.requests.length, 1);
  await anHourLater();
  await takeTurn(worker);
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
  await takeTurn(worker);
  await anHourLater();
  await takeTurn(worker);
  const wakes = await sql`select url from net.http_request_queue`;
  assertEquals(wakes.map(({ url }) => url), [
    "https://ref.supabase.co/functions/v1/billing-worker?queue=sweep",
  ]);
  assertEquals(api.requests.length, 2);
});
