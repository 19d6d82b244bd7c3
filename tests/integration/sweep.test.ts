/** Sweeps of events that never came, by the worker, from APIs that are as unkind as the real ones. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Environment } from "../../scripts/common/environment.ts";
import {
  providerSettings,
  signatureHeaders,
} from "../../scripts/common/sign.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { LOCAL_SIGNING_SECRETS } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { handlersPage } from "../support/docs.ts";
import {
  DAY,
  type Fault,
  HOUR,
  type ListedEvent,
  listedEvent,
  LISTING_FORMATS,
  type ListingFormat,
  MINUTE,
  SECOND,
  serveEventApi,
} from "../support/event_apis.ts";
import {
  type ServedFunction,
  startReceiver,
  startWorker,
  wake,
} from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import { endLease } from "../support/queues.ts";
import { post } from "../support/send.ts";
import { connect, emptyTables } from "../support/tables.ts";

const FORMATS = Object.keys(LISTING_FORMATS) as ListingFormat[];
const NOW = Date.now();
const ago = (ms: number) => new Date(NOW - ms).toISOString();

const sql = connect();
Deno.test.afterAll(async () => {
  await sql`drop table public.credits, public.handler_runs cascade`;
  await sql`drop function billing.on_checkout_session_completed`;
  await sql`drop function billing.on_checkout_session_async_payment_succeeded`;
  await sql`drop function billing.on_transaction_completed`;
  await sql`drop function public.count_run`;
  await emptyTables(sql);
  await sql.end();
});

// The page's handler of credits, the same for Paddle, and how often they ran.
const credits = handlersPage().handlers.find((text) =>
  text.includes("on_checkout_session_completed")
)!;
await sql.unsafe(`${credits}
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
    for each row execute function public.count_run();`).simple();

async function handlerRuns(): Promise<number> {
  const runs = await sql`
    select count(*)::int as all, count(distinct source)::int as events
    from public.handler_runs`;
  assertEquals(runs[0]!["all"], runs[0]!["events"], "a handler ran twice");
  return runs[0]!["all"];
}

/** Starts with empty tables, long after the installation; both providers' sweeps are new. */
async function openScene(format: ListingFormat, env: Environment = {}) {
  await emptyTables(sql);
  await sql`truncate public.credits, public.handler_runs`;
  await sql`
    update billing.installation
    set installed_at = now() - interval '100 days', pruned_until = null`;
  await using opened = new AsyncDisposableStack();
  const api = opened.use(serveEventApi(format));
  const { bought } = LISTING_FORMATS[format].types;
  const settings = { HANDLE_EVENT_TYPES: bought, ...api.env, ...env };
  let worker: Worker;

  const scene = {
    api,
    format,
    settings,
    make: (...rest: Rest<typeof listedEvent>) => {
      const event = listedEvent(format, ...rest);
      api.events.push(event);
      return event;
    },
    get worker() {
      return worker;
    },
    async restart(changed: Environment = {}) {
      worker = opened.use(await startWorker({ ...settings, ...changed }));
    },
    /** One run; returns its counts. */
    sweep: () => sweep(worker),
    /** Runs until one is done; returns how many events were missing. */
    async sweepAll() {
      let missed = 0;
      do missed += (await sweep(worker)).missed; while (
        (await stateOf()).rests === "00:00:00"
      );
      return missed;
    },
  };
  await scene.restart();
  return Object.assign(opened.move(), scene, {
    get worker() {
      return worker;
    },
  });
}

type Worker = Awaited<ReturnType<typeof startWorker>>;
type Rest<F> = F extends (first: never, ...rest: infer R) => unknown ? R
  : never;

async function sweep(
  worker: ServedFunction,
): Promise<{ listed: number; missed: number }> {
  const { secret } = await localKeys();
  const { status, body } = await post(`${worker.url}?queue=sweep`, {
    headers: { apikey: secret },
  });
  assertEquals(status, 200, worker.output());
  return JSON.parse(body).sweep;
}

async function stateOf() {
  const [state] = await sql`
    select *, rests::text as rests from billing.sweeps where provider = 'a'`;
  return state as Record<string, unknown>;
}

/** As if sweeps had succeeded until then, with the type of the handler listed. */
async function sweptUntil(format: ListingFormat, ms: number) {
  const until = ago(ms);
  const types = { [LISTING_FORMATS[format].types.bought]: until };
  await sql`
    insert into billing.sweeps (provider, swept_until, types)
    values ('a', ${until}, ${sql.json(types)})`;
}

async function missedByType(): Promise<Record<string, number>> {
  const rows = await sql`
    select type, sum(events)::int as events
    from billing.missed_events group by type`;
  return Object.fromEntries(rows.map(({ type, events }) => [type, events]));
}

function countByType(events: readonly ListedEvent[]): Record<string, number> {
  const groups = Object.entries(Object.groupBy(events, ({ type }) => type));
  return Object.fromEntries(groups.map(([type, of]) => [type, of!.length]));
}

async function ledger(): Promise<string[]> {
  const rows = await sql`select event_id from billing.processed_events`;
  return rows.map(({ event_id }) => event_id).sort();
}

const idsOf = (events: readonly ListedEvent[]) =>
  events.map(({ id }) => id).sort();

/** Twenty subscriptions of the last 29 days, with changes at the same moment. */
function makeHistory({ make }: Pick<Scene, "make">): ListedEvent[] {
  return Array.from({ length: 20 }, (_, i) => {
    const subscription = uniqueId("sub");
    const at = (ms: number) => ({ at: NOW - ms, subscription });
    return [
      make("created", at(29 * DAY - i * MINUTE)),
      make("bought", at(25 * DAY - i * MINUTE)),
      make("updated", at(20 * DAY)),
      make(
        ...(i % 2 ? ["failed", at(15 * DAY)] : ["ended", at(9 * DAY)]) as [
          "failed",
          ReturnType<typeof at>,
        ],
      ),
      ...(i % 10 ? [] : [make("failed", at(2 * DAY))]),
    ];
  }).flat();
}

type Scene = Awaited<ReturnType<typeof openScene>>;

async function deliverer(format: ListingFormat) {
  const env = {
    ...LOCAL_SIGNING_SECRETS,
    PROVIDER_A_FORMAT: format,
    HANDLE_EVENT_TYPES: LISTING_FORMATS[format].types.bought,
  };
  const receiver = await startReceiver({ env });
  const settings = providerSettings(env, "a");
  return Object.assign(receiver, {
    async deliver(events: readonly ListedEvent[]) {
      // The creations first.
      for (const alike of Map.groupBy(events, ({ type }) => type).values()) {
        await Promise.all(alike.map(async (event) => {
          const body = JSON.stringify(event.body);
          const headers = signatureHeaders({ ...settings, body });
          const { status } = await post(receiver.url, { headers, body });
          assertEquals(status, 200, receiver.output());
        }));
      }
    },
  });
}

const LOSSES: [
  string,
  (event: ListedEvent, format: ListingFormat) => boolean,
][] = [
  ["the endpoint was off for 29 days", () => true],
  [
    "a type was not selected",
    ({ type }, format) => type === LISTING_FORMATS[format].types.updated,
  ],
  [
    "the secret was wrong for a week",
    ({ atMs }) => atMs > NOW - 16 * DAY && atMs < NOW - 9 * DAY + MINUTE,
  ],
];

for (const format of FORMATS) {
  for (const [loss, isLost] of LOSSES) {
    Deno.test(`${format}: if ${loss}, each event is applied once`, async () => {
      await using scene = await openScene(format);
      await sweptUntil(format, 29 * DAY + HOUR);
      const events = makeHistory(scene);
      const lost = events.filter((event) => isLost(event, format));
      await using receiver = await deliverer(format);
      await receiver.deliver(events.filter((event) => !lost.includes(event)));

      assertEquals(await scene.sweepAll(), lost.length);
      assertEquals(await missedByType(), countByType(lost));
      assertEquals(await ledger(), idsOf(events));
      assertEquals(await handlerRuns(), 20);
      assertEquals([...await sql`select * from billing.failed_events`], []);
      const ended = await sql`
        select from billing.subscriptions where status = 'canceled'`;
      assertEquals(ended.length, 10);

      assertEquals(await scene.sweepAll(), 0);
      assertEquals((await stateOf())["found"], `${lost.length}`);
    });
  }
}
