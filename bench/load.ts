/**
 * The load generator, which runs in a process of its own. It builds signed deliveries,
 * waits for a byte on standard input, sends them over keep-alive connections, and prints
 * the results as lines of JSON.
 *
 * It speaks just enough HTTP/1.1 for that, and builds deliveries beforehand: on two
 * cores, the servers lack the time that the generator takes.
 */
import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { invoiceEvent, type StripeEvent } from "../scripts/events/templates.ts";
import {
  subscriptionEvent,
  type SubscriptionEventOptions,
} from "../scripts/events/subscription_event.ts";
import { LOCAL_SIGNING_SECRETS } from "../supabase/functions/_shared/billing/settings/local_stack.ts";

/** What to send, where and for how long. */
export interface LoadPlan {
  /** The receivers' ports; connections are spread over them. */
  readonly ports: readonly number[];
  readonly connections: number;
  readonly stream: keyof typeof STREAMS;
  /** How many subscriptions the events are about. */
  readonly subscriptions: number;
  /** The time of the first event, in Unix seconds. */
  readonly start: number;
  /** How many requests to build beforehand. */
  readonly built?: number;
  /** The measured time. */
  readonly seconds?: number;
  /** How many events to send. */
  readonly count?: number;
  /** The time of load before the measured time. */
  readonly warmUpSeconds?: number;
  /** Events per second; by default, as many as possible. */
  readonly perSecond?: number;
  /** By default, the measured time is one slice. */
  readonly sliceSeconds?: number;
  /** Whether an event that is not answered with 200 is sent again. */
  readonly retries?: boolean;
}

/** The results of the deliveries in a slice of the measured time. */
export interface Slice extends ReturnType<typeof summary> {
  /** Answers with 200 per second. */
  readonly perSecond: number;
  /** Events that were due when the slice ended, and not yet answered with 200. */
  readonly backlog: number;
  /** The results of crowded events; the other fields are about all others. */
  readonly crowded: ReturnType<typeof summary>;
}

/** An event of a stream. */
interface Planned {
  readonly name: string;
  /** The number of its subscription. */
  readonly subscription: number;
  /** Its time, in seconds after the first event. */
  readonly second: number;
  /** Whether it is about one of few subscriptions. */
  readonly isCrowded?: boolean;
}

/** How many subscriptions the crowded events are about. */
export const CROWDED = 5;

/** One renewal in this many is not paid. */
export const RENEWALS_PER_UNPAID = 50;

/** The events of a paid renewal, and of an unpaid one. */
const PAID = [
  "renewal",
  "invoice.created",
  "invoice.finalized",
  "invoice.paid",
];
const UNPAID = [
  "renewal",
  "invoice.created",
  "overdue",
  "invoice.payment_failed",
];
export const RENEWAL_EVENTS = PAID.length;

/** The i-th event of each stream about n subscriptions, each with its events in order. */
const STREAMS = {
  creations: (i: number, n: number) => eventInTurn("creation", i, n),
  updates: (i: number, n: number) => eventInTurn("update", i, n),
  ignored: (i: number, n: number) => eventInTurn("ignored", i, n),
  crowd(i: number, n: number) {
    if (i % 2 === 0) return eventInTurn("update", i / 2, n);
    const event = eventInTurn("update", (i - 1) / 2, CROWDED);
    return {
      ...event,
      subscription: event.subscription + n,
      isCrowded: true,
    };
  },
  renewals(i: number) {
    const subscription = Math.floor(i / RENEWAL_EVENTS);
    const isUnpaid = subscription % RENEWALS_PER_UNPAID === 0;
    const name = (isUnpaid ? UNPAID : PAID)[i % RENEWAL_EVENTS]!;
    return { name, subscription, second: name === "overdue" ? 1 : 0 };
  },
} satisfies Record<string, (i: number, n: number) => Planned>;

function eventInTurn(name: string, i: number, n: number): Planned {
  return { name, subscription: i % n, second: Math.floor(i / n) };
}

/** Placeholders for values that differ by event: see {@linkcode filler}. */
const NAMES = {
  id: "EVENT_ID",
  subscription: "SUBSCRIPTION_ID",
  account: "acc_bench",
};

/** The subscription events by name: the end of the type, and the options. */
const EVENTS: Readonly<
  Record<string, ["created" | "updated" | "deleted", SubscriptionEventOptions]>
> = {
  creation: ["created", {}],
  update: ["updated", { previous: { status: "trialing" } }],
  ignored: ["updated", {}],
  renewal: ["updated", { previous: { periodEnd: 17e8 } }],
  overdue: ["updated", { status: "past_due", previous: { status: "active" } }],
  deletion: ["deleted", {}],
};

/** Returns the event with a name; other names than in EVENTS are types of invoice events. */
function eventNamed(name: string): StripeEvent<object> {
  const [type, options] = EVENTS[name] ?? [];
  if (type === undefined) {
    return { ...invoiceEvent({ ...NAMES, invoice: "INVOICE_ID" }), type: name };
  }

  const event = subscriptionEvent(`customer.subscription.${type}`, {
    ...NAMES,
    plan: "PLAN_ID",
    status: "active",
    ...options,
  });
  // Stripe also sends fields that are null. These bring the event to 3 kB.
  for (let i = 0; i < 50; i++) {
    Object.assign(event.data.object, { [`unset_field_name_${i}`]: null });
  }
  return name === "ignored" ? { ...event, type: "customer.updated" } : event;
}

/** The placeholder for an event's time, as a number or as text. */
const CREATED = 1_000_000_000;
const CREATED_ISO = new Date(CREATED * 1000).toISOString();
const SLOTS = new RegExp(
  `(EVENT_ID|SUBSCRIPTION_ID|INVOICE_ID|PLAN_ID|${CREATED_ISO}|${CREATED})`,
);

const PLANS = ["price_basic", "price_team", "price_scale"];

/**
 * Returns a function that makes events of one kind, as text, from the number of the
 * subscription and the time. That is faster than to build each event anew.
 *
 * @param shape Returns the form in which the event is sent.
 */
export function filler(
  name: string,
  shape: (event: object) => unknown = (event) => event,
): (subscription: number, created: number) => string {
  const event = { ...eventNamed(name), created: CREATED };
  const parts = JSON.stringify(shape(event)).split(SLOTS);

  return (subscription, created) => {
    const values: Record<string, string> = {
      EVENT_ID: stripeId("evt", created),
      SUBSCRIPTION_ID: numberedId("sub", subscription),
      INVOICE_ID: numberedId("in", subscription),
      PLAN_ID: PLANS[created % PLANS.length]!,
      [CREATED]: `${created}`,
      [CREATED_ISO]: new Date(created * 1000).toISOString(),
    };
    return parts.map((part, i) => i % 2 === 0 ? part : values[part]).join("");
  };
}

const BASE_62 =
  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** When the seconds in Stripe's IDs begin, as Unix time (from published IDs). */
const FIRST_SECOND = 1_342_389_380;

/** The part that all IDs of an account share. */
export const ACCOUNT = "Bx7kQ2mVr4";

/**
 * Returns a new ID as Stripe makes them: five characters count seconds, so IDs
 * sort nearly as they were created; ten are the account's, eight are random.
 */
function stripeId(prefix: string, seconds: number): string {
  const digit = (number: number) => BASE_62[Math.floor(number) % 62];
  const time = [4, 3, 2, 1, 0].map((place) =>
    digit((seconds - FIRST_SECOND) / 62 ** place)
  );
  const random = Array.from({ length: 8 }, () => digit(Math.random() * 62));
  return `${prefix}_1${time.join("")}${ACCOUNT}${random.join("")}`;
}

/** Returns an ID of the same length for a number. SQL can make the same one. */
export function numberedId(prefix: string, number: number): string {
  return `${prefix}_1${`${number}`.padStart(13, "0")}${ACCOUNT}`;
}

/** The pause before the first retry; each further one is twice as long. */
const PAUSE_MS = 5_000;

/** An event to send for the first time, or again. */
interface Delivery {
  /** The time to send it, as of `performance.now()`. */
  readonly due: number;
  /** The event's number in the stream. */
  readonly i: number;
  readonly tries: number;
  readonly request: Uint8Array;
}

async function generateLoad(plan: LoadPlan): Promise<void> {
  const { perSecond, count = Infinity } = plan;
  const build = builder(plan);
  const built = Array.from({ length: plan.built ?? 0 }, (_, i) => build(i));
  console.log("built");
  await Deno.stdin.read(new Uint8Array(1));

  const first = performance.now();
  const began = first + (plan.warmUpSeconds ?? 0) * 1000;
  const end = began + (plan.seconds ?? Infinity) * 1000;
  const dueOf = (i: number) => perSecond ? first + i * 1000 / perSecond : 0;
  let made = 0;
  let applied = 0;
  let answers = 0;
  let errors = 0;
  const isDone = () => (plan.retries ? applied : answers) >= count;
  const later: Delivery[] = [];

  let slice = newSlice();
  let sliceBegan = began;
  function endSlice(now: number): void {
    const due = perSecond ? (now - first) / 1000 * perSecond : made;
    const ok = slice.reduce((sum, { ok }) => sum + ok, 0);
    const [others, crowded] = slice.map(summary);
    const result: Slice = {
      ...others!,
      crowded: crowded!,
      perSecond: ok * 1000 / (now - sliceBegan),
      backlog: Math.max(0, Math.round(Math.min(count, due) - applied)),
    };
    console.log(JSON.stringify(result));
    slice = newSlice();
    sliceBegan = now;
  }

  /** Returns the next event to send; undefined if all were sent and no retry is due. */
  function nextDelivery(): Delivery | undefined {
    const again = later.findIndex(({ due }) => due <= performance.now());
    if (again >= 0) return later.splice(again, 1)[0];
    if (made >= count) return undefined;
    const i = made++;
    return { due: dueOf(i), i, tries: 0, request: built[i] ?? build(i) };
  }

  function countAnswer(
    delivery: Delivery,
    { status, sent, answered }: {
      status: number;
      sent: number;
      answered: number;
    },
  ): void {
    const { i, tries } = delivery;
    answers++;
    const part = slice[plannedAt(plan, i).isCrowded ? 1 : 0]!;
    if (sent >= began) part.times.push(answered - sent);

    if (status === 200) {
      applied++;
      if (answered >= began && answered <= end) part.ok++;
      return;
    }
    errors++;
    if (sent >= began) part.errors++;
    const due = answered + PAUSE_MS * 2 ** tries;
    if (plan.retries) later.push({ ...delivery, due, tries: tries + 1 });
  }

  async function sendOver(port: number): Promise<void> {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    connection.setNoDelay();
    const space = new Uint8Array(65_536);

    while (performance.now() < end && !isDone()) {
      const delivery = nextDelivery();
      if (delivery === undefined) {
        await sleep(20); // an outstanding answer may still be an error
        continue;
      }
      const { due, request } = delivery;
      const early = due - performance.now();
      if (early > 1) await sleep(early);

      const sent = performance.now();
      for (let written = 0; written < request.length;) {
        written += await connection.write(request.subarray(written));
      }
      const status = await readAnswer(connection, space);
      countAnswer(delivery, { status, sent, answered: performance.now() });
    }
  }

  const sliceMs = (plan.sliceSeconds ?? 1e6) * 1000;
  const timer = setInterval(() => endSlice(performance.now()), sliceMs);
  const { connections, ports } = plan;
  await Promise.all(
    Array.from(
      { length: connections },
      (_, n) => sendOver(ports[n % ports.length]!),
    ),
  );
  clearInterval(timer);

  const ended = Math.min(end, performance.now());
  if (!plan.sliceSeconds || ended - sliceBegan > sliceMs / 2) endSlice(ended);
  console.log(JSON.stringify({ answers, errors }));
}

function plannedAt(plan: LoadPlan, i: number): Planned {
  return STREAMS[plan.stream](i, plan.subscriptions);
}

/** Returns a function that builds the i-th request. */
function builder(plan: LoadPlan): (i: number) => Uint8Array {
  const fillers = new Map<string, ReturnType<typeof filler>>();
  const encoder = new TextEncoder();
  const secret = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;
  return (i) => {
    const { name, subscription, second } = plannedAt(plan, i);
    const fill = fillers.get(name) ?? filler(name);
    fillers.set(name, fill);
    const body = fill(subscription, plan.start + second);

    const timestamp = Math.floor(Date.now() / 1000);
    // With Node's HMAC: the stripe package takes ten times as long.
    const signature = createHmac("sha256", secret)
      .update(`${timestamp}.${body}`).digest("hex");
    const head = [
      "POST /billing-webhook HTTP/1.1",
      "host: 127.0.0.1",
      "content-type: application/json",
      `content-length: ${encoder.encode(body).length}`,
      `stripe-signature: t=${timestamp},v1=${signature}`,
    ];
    return encoder.encode(`${head.join("\r\n")}\r\n\r\n${body}`);
  };
}

/** Returns empty counts: for most events, and for crowded ones. */
function newSlice() {
  return [0, 1].map(() => ({ ok: 0, errors: 0, times: [] as number[] }));
}

/** Returns the number of answers other than 200, and percentiles in milliseconds. */
function summary({ errors, times }: ReturnType<typeof newSlice>[0]) {
  times.sort((a, b) => a - b);
  const percentile = (share: number) =>
    times[Math.floor(times.length * share)] ?? 0;
  return { errors, p50: percentile(0.5), p99: percentile(0.99) };
}

/** Reads one answer to its end. The answer must have a Content-Length. */
async function readAnswer(
  connection: Deno.Conn,
  space: Uint8Array,
): Promise<number> {
  const decoder = new TextDecoder("latin1");
  let text = "";
  for (;;) {
    const length = await connection.read(space);
    if (length === null) throw new Error("The server closed the connection");
    text += decoder.decode(space.subarray(0, length));
    const [head = "", body] = text.split("\r\n\r\n");
    const expected = /content-length: (\d+)/i.exec(head)?.[1];
    if (body !== undefined && body.length >= Number(expected)) {
      return Number(head.slice(9, 12));
    }
  }
}

if (import.meta.main) await generateLoad(JSON.parse(Deno.args[0] ?? ""));
