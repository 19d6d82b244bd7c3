import { assert, assertEquals } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import { describeText } from "../../../supabase/functions/_shared/billing/database/record_failure.ts";
import type { Worker } from "../../../supabase/functions/billing-worker/handle_wake.ts";
import type { ReadingSettings } from "../../../supabase/functions/_shared/billing/events/parse_event.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";
import {
  CHECKOUT,
  CREATED,
  DELETED,
  FAILED,
  hanging,
  NOW,
  refusal,
  TRIAL,
  UPDATED,
} from "./fixtures.ts";
import {
  type Answer,
  type Applied,
  claimed,
  eventOf,
  type Failure,
  INVOICE,
  wake,
} from "./worker_run.ts";

type Settled = Readonly<Record<string, string>>;

function settledBy({ named }: Awaited<ReturnType<typeof wake>>): Settled[] {
  const [settle] = named(/settle_failed/);
  return (settle?.[1]["results"] ?? []) as Settled[];
}

const WHOLE: [Answer, events: number, status: number, settled?: string][] = [
  [() => refusal("57014"), 1, 503],
  [() => refusal("PGRST301"), 1, 500],
  [hanging, 2, 503],
  [hanging, 1, 200, "database_unavailable"],
  [() => refusal("PGRST001"), 2, 503],
  [() => refusal("PGRST001"), 1, 200, "database_unavailable"],
  [() => refusal("PGRST202"), 2, 200, "deployment_fault"],
];
Deno.test("a run leaves events to the next if a fault is not theirs", async () => {
  for (const [fails, count, status, expected] of WHOLE) {
    using timers = useFakeTimers();
    const failures = Array<Failure>(count).fill(["", INVOICE]);
    const called = Promise.withResolvers<void>();
    const apply_events: Answer = (signal) => {
      called.resolve();
      return fails(signal);
    };

    const running = wake({ failures, answers: { apply_events } });
    await called.promise;
    if (fails === hanging) await timers.pass(3_000);
    const run = await running;

    const codes = settledBy(run).map(({ error_code }) => error_code);
    assertEquals(codes, expected ? Array(count).fill(expected) : []);
    assertEquals(run.response.status, status);
  }
});

const ahead = eventOf(FAILED, { created: NOW + 301 });
const NOBODYS = { "data.object.id": "sub_3", "data.object.metadata": {} };
const orphan = eventOf(CREATED, NOBODYS);
const textOf = (body: Failure[1]) =>
  typeof body === "string" ? body : new TextDecoder().decode(body);
const bytesOf = (text: string) => new TextEncoder().encode(text);
const updateOf = (id: string) => eventOf(UPDATED, { "data.object.id": id });

const ROWS: [worker: Partial<Worker>, ...rows: Failure[]][] = [
  [
    {},
    ["body_not_json", "{"],
    ["duplicate", INVOICE, "duplicate"],
    ["no_longer_handled", '{"type":"payment_intent.payment_failed"}'],
    ["subscription_unknown", INVOICE, "BW001"],
    ["stale", INVOICE, "stale"],
    ["ignored", INVOICE, "erased"],
    ["applied", bytesOf(eventOf(FAILED, { id: "evt_ü" }))],
    ["body_not_text", new Uint8Array([0x80, 0x80])],
    ["event_invalid", ahead],
    ["account_unknown", orphan, "BW005"],
  ],
  // Its time has come.
  [{ clock: () => (NOW + 1) * 1000 }, ["applied", ahead]],
  // What waits for a locked creation fails as that does.
  [
    { unmappedSubscriptions: "ignore" },
    ["record_locked", updateOf("sub_1"), "55P03"],
    ["record_locked", updateOf("sub_1"), "BW001"],
    ["record_locked", updateOf("sub_1"), "BW006"],
    ["record_locked", updateOf("sub_1"), "BW005"],
    ["subscription_of_other_provider", updateOf("sub_1"), "BW002"],
    ["creation_pending", updateOf("sub_2"), "BW006"],
    // Its subscription has no account, and nothing else is wrong.
    ["ignored", orphan, "BW005"],
    ["ignored", bytesOf(orphan), "BW005"],
    [
      "account_unknown",
      eventOf(CREATED, { "data.object.id": "sub_2" }),
      "BW005",
    ],
    ["event_invalid", eventOf(CREATED, { ...NOBODYS, created: NOW + 301 })],
    ["ignored", eventOf(UPDATED, NOBODYS), "BW001"],
    ["subscription_unknown", updateOf("sub_2"), "BW001"],
    ["creation_pending", eventOf(UPDATED, NOBODYS), "BW006"],
    ["event_invalid", eventOf(FAILED, { data: {} })],
  ],
];
const LOCKED = "another session has locked the records: they are tried again";
Deno.test("a run retries each failure, and settles and describes it", async () => {
  for (const [worker, ...failures] of ROWS) {
    const clock = () => NOW * 1000;
    const run = await wake({ failures, worker: { clock, ...worker } });

    const expected = failures.map(([result, body], i) => ({
      result,
      provider: "b",
      event_id: `evt_${i}`,
      ...describeText(textOf(body), stripe),
    }));
    const settled = settledBy(run).map(
      ({ error = "", error_code, outcome, ...described }) => {
        assertEquals(outcome === "failed", error_code !== undefined);
        // The database cannot say where an account is missing.
        const names = /^data\.object\.metadata\.accountId is missing/;
        assertEquals(names.test(error), error_code === "account_unknown");
        return { ...described, result: error_code ?? outcome };
      },
    );
    assertEquals(settled, JSON.parse(JSON.stringify(expected)));
    assertEquals(run.leases.size, 1);
    for (const [, { events }] of run.named(/apply_events/)) {
      const providers = (events as Applied[]).map(({ provider }) => provider);
      assertEquals(new Set(providers), new Set(["b"]));
    }

    const sums = { failed: 0, applied: 0, duplicate: 0, stale: 0, ignored: 0 };
    for (const [result] of failures) {
      sums[result in sums ? result as keyof typeof sums : "failed"]++;
    }
    assertEquals(run.counts.retries, { claimed: failures.length, ...sums });

    const locked = failures.filter(([one]) => one === "record_locked").length;
    const line = ["warn", LOCKED, { counts: { locked } }];
    const warnings = run.lines.filter(([level]) => level === "warn");
    assertEquals<unknown[]>(warnings, locked > 0 ? [line] : []);
  }
});

const FURTHER = "Its type is not handled: check HANDLE_EVENT_TYPES, ";
const TYPELESS = "It has no type: check PROVIDER_B_FORMAT";
const NO_LONGER: [error: string, body: string, Partial<ReadingSettings>?][] = [
  [
    "mode is ignored: check PROVIDER_B_MODE",
    eventOf(FAILED, { livemode: true }),
    {
      mode: "test",
    },
  ],
  ["check PROVIDER_B_CONNECT", eventOf(FAILED, { account: "acct_1" }), {
    connect: false,
  }],
  [`${FURTHER}PROVIDER_B_FORMAT`, eventOf("charge.refunded")],
  [FURTHER, JSON.stringify({ type: "v1.x", object: "v2.core.event" })],
  // Nothing has checked it, and Postgres could not store it.
  [FURTHER, JSON.stringify({ type: "\0" })],
  ["check NOTIFY, HANDLE_EVENT_TYPES, PROVIDER_B_", eventOf(TRIAL)],
  ["check ACCOUNT_FROM_CHECKOUT, HANDLE_EVENT_", eventOf(CHECKOUT)],
  [
    "names no subscription: check HANDLE_EVENT_TYPES",
    eventOf(FAILED, { "data.object": { id: "in_1" } }),
  ],
  // As Stripe's, if the setting is gone.
  [FURTHER, JSON.stringify({ type: "subscription.created" })],
  [TYPELESS, JSON.stringify({ event_type: "subscription.created" })],
  [TYPELESS, INVOICE, { format: FORMATS.paddle }],
];
Deno.test("a run leaves open what is no longer handled, and says why", async () => {
  for (const [error, body, changed] of NO_LONGER) {
    const reading = { format: stripe, mode: "any", connect: true } as const;
    const worker = {
      unmappedSubscriptions: "ignore",
      clock: () => NOW * 1000,
      readingSettings: () => ({ ...reading, ...changed }),
    } as const;
    const run = await wake({ failures: [["", body]], worker });
    const [{ outcome, error_code, error: why = "" } = {}] = settledBy(run);
    assertEquals([outcome, error_code], ["failed", "no_longer_handled"]);
    assert(why.includes(error), why);
    assertEquals(run.named(/apply/), []);
  }

  const message = "PROVIDER_B_MODE must be any or live or test";
  const misread = await wake({
    failures: [["", INVOICE]],
    worker: {
      readingSettings() {
        throw new DeliveryError("provider_misconfigured", message);
      },
    },
  });
  const [{ error_code, error } = {}] = settledBy(misread);
  assertEquals([error_code, error], ["no_longer_handled", message]);

  // It never had a type.
  const row = { ...claimed(["", '{"event_type":"x"}'], 0), type: null };
  const typeless = await wake({ due: { claim_failed_events: [[row]] } });
  assertEquals(settledBy(typeless)[0]?.["error_code"], "event_invalid");
});

Deno.test("a run retries events with a handler one by one, for a second", async () => {
  const types = new Set([DELETED]);
  const deletion = eventOf(DELETED);
  const failures: Failure[] = [
    ["", INVOICE],
    ["", deletion, "BW008"],
    ["", INVOICE],
    ["", INVOICE],
    ["", deletion],
    ["", deletion],
    ["", INVOICE],
  ];

  let nowMs = NOW * 1000;
  let tried = 0;
  const handled = () => {
    nowMs += 600;
    const failed = { outcome: "failed", error_code: "BW008", error: "raised" };
    // The second one loses its connection, and so would each retry of it.
    if (++tried === 2) return refusal("PGRST001");
    const answer = tried === 1 ? failed : { outcome: "applied" };
    return Response.json([{ place: 1, ...answer }]);
  };

  const run = await wake({
    failures,
    answers: { apply_handled_event: handled },
    worker: { handlerTypes: { types }, clock: () => nowMs },
  });

  const calls = run.named(/apply/).map(([name, { events = [], event }]) => {
    const { payload } = (event ?? {}) as { payload?: string };
    assertEquals(payload, event ? deletion : undefined);
    return `${name} ${event ? 1 : (events as object[]).length}`;
  });
  assertEquals(calls, [
    "apply_events 1",
    "apply_handled_event 1",
    "apply_events 2",
    "apply_handled_event 1",
  ]);
  const outcomes = settledBy(run).map(({ outcome }) => outcome).join(" ");
  assertEquals(
    outcomes,
    "applied failed applied applied failed untried untried",
  );
  const { claimed, applied, failed } = run.counts.retries;
  assertEquals([claimed, applied, failed], [5, 3, 2]);
});

Deno.test("a run retries until nothing is left or its time is over", async () => {
  // Each batch looks at the clock twice: 7 s per batch.
  let timeMs = 0;
  const slow = { clock: () => timeMs += 3_500, channel: undefined };
  for (const [worker, count, calls] of [[{}, 4, 9], [slow, 3, 6]] as const) {
    const rows = [0, 1, 2, 3].map((i) => [claimed(["", "{"], i)]);
    const due = { claim_failed_events: rows };
    const { counts, named } = await wake({ due, worker });

    assertEquals(counts.retries.claimed, count);
    const claimsAndSettlements = named(/failed_events/);
    assertEquals(claimsAndSettlements.length, calls);
    assertEquals(claimsAndSettlements[0]?.[1].batch_size, 25);
  }
});
