/**
 * Each format: in whatever order and however often its events arrive, the record ends as
 * if each had been handled once, in the order of occurrence. The model knows our fields
 * only. Times differ by a microsecond, or not at all if the events are of other kinds.
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { JSONValue } from "postgres";
import {
  type Provider,
  providerEvent,
  PROVIDERS,
} from "../../scripts/events/provider_events.ts";
import type { Kind } from "../../supabase/functions/_shared/billing/formats/format.ts";
import { FORMATS } from "../../supabase/functions/_shared/billing/formats/formats.ts";
import {
  parseEvent,
  readEventId,
} from "../../supabase/functions/_shared/billing/parse_event.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { connect } from "../support/tables.ts";

const sql = connect(1);
Deno.test.afterAll(() => sql.end());

const START = Date.parse("2026-11-03T10:00:00Z");
const at = (micros: number) =>
  new Date(START + Math.floor(micros / 1000)).toISOString()
    .replace("Z", `${micros % 1000}`.padStart(3, "0") + "Z");
const days = (count: number) => at(count * 86_400_000_000);
const NAMES = Object.keys(PROVIDERS) as Provider[];

/** What happens: an event of a kind, which of its types, and what it says. */
const happening = fc.record({
  kind: fc.constantFrom<Kind>("update", "update", "update", "payment_failed"),
  pick: fc.nat(),
  gap: fc.constantFrom(1, 1, 1_000, 1_000_000),
  said: fc.record({
    status: fc.constantFrom("active", "past_due", "paused", "trialing"),
    plan: fc.constantFrom("11", "12", "13"),
    quantity: fc.integer({ min: 1, max: 9 }),
    periodEnd: fc.integer({ min: 30, max: 90 }).map(days),
    cancelAt: fc.option(fc.integer({ min: 30, max: 90 }).map(days)),
  }),
});
type Said = typeof happening extends fc.Arbitrary<infer V> ? V : never;

const life = fc.record({
  provider: fc.constantFrom(...NAMES),
  birth: happening,
  happenings: fc.array(happening, { maxLength: 6 }),
  /** At the time of the last event, or later. */
  end: fc.option(fc.constantFrom(0, 5)),
  order: fc.integer(),
});
type Life = typeof life extends fc.Arbitrary<infer V> ? V : never;

/** The provider's word for a status, and which of its types may have it. */
const WORDS: Partial<Record<Provider, Record<string, string>>> = {
  dodo: { past_due: "on_hold", trialing: "active" },
  "lemon-squeezy": { trialing: "on_trial" },
};

/** Returns the events of a life, and the record that they come to. */
async function liveThrough(
  { provider, birth, happenings, end }: Life,
  id: string,
) {
  const format = FORMATS[provider];
  const subscription = provider === "lemon-squeezy" ? id : `sub_${id}`;
  const events: object[] = [];
  let record: Record<string, unknown> = {};
  let micros = 0;
  async function happen(kind: Kind, { pick, said }: Said) {
    const types = Object.entries(format.kinds).filter(([, own]) =>
      own === kind || kind === "update" && own === "opening_update"
    );
    const type = types[pick % types.length]![0];
    const { status } = said;
    const event = providerEvent(provider, type, {
      ...{ ...said, subscription, customer: `c${id}`, account: `acc_${id}` },
      ...{ id: `evt_${id}_${events.length}`, occurredAt: at(micros) },
      status: WORDS[provider]?.[status] ?? status,
    });
    const text = JSON.stringify(event);
    const deliveryId = `msg_${id}_${events.length}`;
    const handledTypes = { types: new Set<string>() };
    const eventId = await readEventId(new TextEncoder().encode(text), {
      ...{ format, deliveryId, handledTypes },
    });
    const parsed = parseEvent(text, {
      ...{ format, id: eventId, toleranceSeconds: 0 },
      ...{
        nowSeconds: START / 1000 + 1_000,
        notify: new Set(["payment_failed"]),
      },
    });
    if (!parsed.handled) throw new Error(`${type} is not handled`);
    events.push({ ...parsed.event, provider: "a" });
    const isOpening = parsed.event.kind === "opening_update";
    if (kind === "deletion") record = { ...record, status: "canceled" };
    if (kind !== "update" && kind !== "creation") return;
    // Of a canceled one, Lemon Squeezy's period ends with it.
    const { plan, quantity, periodEnd, cancelAt } = said;
    const ends = provider === "dodo" ? cancelAt && periodEnd : cancelAt;
    const isCanceled = provider === "lemon-squeezy" && cancelAt !== null;
    const reported = isCanceled || provider === "dodo" && status === "trialing"
      ? "active"
      : status;
    const isEnded = provider === "paddle" && status === "paused";
    record = {
      status: kind === "creation" && !isOpening ? "active" : reported,
      provider_status: reported,
      ...{ plan_id: plan, quantity, cancel_at: ends && toIso(ends) },
      current_period_end: isEnded
        ? null
        : toIso(isCanceled ? cancelAt : periodEnd),
    };
  }
  await happen(
    Object.values(format.kinds).includes("creation") ? "creation" : "update",
    {
      ...birth,
      pick: 0,
    },
  );
  for (const one of happenings) {
    micros += one.gap;
    await happen(one.kind, one);
  }
  if (end !== null) {
    micros += end;
    await happen("deletion", birth);
  }
  const prefix = provider === "lemon-squeezy" ? "ls_" : "";
  const failures = events.filter((event) => "payment" in event).length;
  return { events, key: `${prefix}${subscription}`, failures, record };
}

const toIso = (time: string) => new Date(time).toISOString();

/** Sends events in calls of one to four, and those that failed again. */
async function deliver(events: readonly object[], random: () => number) {
  let waiting = shuffled([...events, ...events.slice(0, 2)], random);
  for (let calls = 0; waiting.length > 0; calls++) {
    if (calls > 500) throw new Error("Events do not get through");
    const sent = waiting.splice(0, 1 + Math.floor(random() * 4));
    const placed = sent.map((event, i) => ({ place: i + 1, ...event }));
    const failed = await sql`
      select place from public.billing_apply_events(${
      sql.json(placed as unknown as JSONValue)
    }) where outcome = 'failed'`;
    waiting = [...waiting, ...failed.map(({ place }) => sent[place - 1]!)];
  }
}

Deno.test("events of each format end in the state of the order of occurrence", () =>
  fc.assert(
    fc.asyncProperty(life, async (one) => {
      const id = `${crypto.getRandomValues(new Uint32Array(1))[0]}`;
      const { events, key, failures, record } = await liveThrough(one, id);
      await deliver(events, seededRandom(one.order));
      const [row] = await sql`
        select status, provider_status, plan_id, quantity, cancel_at, current_period_end,
          account_id, (select count(*)::int from billing.notifications n where n.subscription_id = s.id) as failures
        from billing.subscriptions s where id = ${key}`;
      const { account_id, ...actual } = row!;
      assertEquals(account_id, `acc_${id}`);
      assertEquals<unknown>(
        JSON.parse(JSON.stringify(actual)),
        { ...record, failures },
        one.provider,
      );
    }),
    { seed: freshSeed(), numRuns: 300 },
  ));
