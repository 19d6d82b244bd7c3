/**
 * Builds the requests of a benchmark before it runs: subscription events of
 * full size, each with an ID of its own, signed.
 */
import { createHmac } from "node:crypto";
import { subscriptionEvent } from "../scripts/events/subscription_event.ts";

/** A request's head and body, and how a target wants them. */
export interface RequestShape {
  readonly path: string;
  readonly headers: (body: string) => Record<string, string>;
  readonly body: (event: object) => string;
}

/** What the requests of a file are about. */
export interface RequestOptions {
  readonly shape: RequestShape;
  readonly count: number;
  readonly subscriptions: readonly string[];
  /** By default updates. */
  readonly type?:
    | "customer.subscription.created"
    | "customer.subscription.updated";
}

const PLANS = ["price_basic", "price_team", "price_scale"];
const STATUSES = ["active", "past_due"];

/** Stands for an event's time, in a body as a number or as text. */
const CREATED = 1_000_000_000;
const CREATED_ISO = new Date(CREATED * 1000).toISOString();

/** What differs from event to event, and where it is in a body. */
const SLOTS = new RegExp(
  `EVENT_ID|SUBSCRIPTION_ID|ITEM_ID|PLAN_ID|STATUS|${CREATED_ISO}|${CREATED}`,
);

const CHUNK = 4 * 2 ** 20;

/** The time of the next file's first event: no file has older ones. */
let nextCreated = Math.floor(Date.now() / 1000) - 86_400;

/** How many subscriptions the events are about. */
export const SUBSCRIPTIONS = 2_000;

/** Returns new IDs of subscriptions. */
export function subscriptionIds(): string[] {
  return Array.from(
    { length: SUBSCRIPTIONS },
    (_, i) => stripeId("sub", 1_750_000_000 + i),
  );
}

/**
 * Writes requests to a file, each behind its length. The events go through the
 * subscriptions again and again, a second later each time, so no update is
 * stale.
 *
 * @return the time of the first event, in Unix seconds
 */
export async function writeRequests(
  file: string,
  options: RequestOptions,
): Promise<number> {
  const { shape, count, subscriptions } = options;
  const start = nextCreated;
  nextCreated += Math.ceil(count / subscriptions.length);
  const bodyOf = bodyBuilder(options);
  const encoder = new TextEncoder();
  using output = await Deno.open(file, {
    write: true,
    create: true,
    truncate: true,
  });
  const chunk = new Uint8Array(CHUNK);
  let used = 0;
  for (let i = 0; i < count; i++) {
    const subscription = subscriptions[i % subscriptions.length] ?? "";
    const created = start + Math.floor(i / subscriptions.length);
    const body = bodyOf({
      EVENT_ID: stripeId("evt", created),
      SUBSCRIPTION_ID: subscription,
      ITEM_ID: subscription.replace("sub_", "si_"),
      PLAN_ID: PLANS[i % PLANS.length] ?? "",
      STATUS: STATUSES[i % STATUSES.length] ?? "",
      [CREATED]: `${created}`,
      [CREATED_ISO]: new Date(created * 1000).toISOString(),
    });
    const headers = Object.entries({
      host: "127.0.0.1",
      "content-type": "application/json",
      "content-length": String(encoder.encode(body).length),
      ...shape.headers(body),
    }).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const request = encoder.encode(
      `POST ${shape.path} HTTP/1.1\r\n${headers}\r\n${body}`,
    );
    if (used + 4 + request.length > CHUNK) {
      await writeAll(output, chunk.subarray(0, used));
      used = 0;
    }
    new DataView(chunk.buffer).setUint32(used, request.length, true);
    chunk.set(request, used + 4);
    used += 4 + request.length;
  }
  await writeAll(output, chunk.subarray(0, used));
  return start;
}

/** Building an event costs more than filling in what differs. */
function bodyBuilder(
  { shape, type = "customer.subscription.updated" }: RequestOptions,
): (values: Record<string, string>) => string {
  const event = subscriptionEvent(type, {
    id: "EVENT_ID",
    subscription: "SUBSCRIPTION_ID",
    account: "acc_bench",
    plan: "PLAN_ID",
    status: "STATUS",
    previous: { status: "trialing" },
  });
  event.created = CREATED;
  // Stripe names what is null, too.
  const unset = Array.from({ length: 50 }, (_, i) => `unset_field_name_${i}`);
  Object.assign(
    event.data.object,
    Object.fromEntries(unset.map((name) => [name, null])),
  );
  const item = event.data.object.items.data[0].id;
  const template = shape.body(event).replaceAll(item, "ITEM_ID");
  const parts = template.split(new RegExp(`(${SLOTS.source})`));
  return (values) =>
    parts.map((part, i) => i % 2 === 0 ? part : values[part]).join("");
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    at += await file.write(bytes.subarray(at));
  }
}

/** Stripe's header, made by Node's HMAC: the stripe package takes ten times as long. */
export function stripeSignature(
  header: string,
  secret: string,
): RequestShape["headers"] {
  return (body) => {
    const timestamp = Math.floor(Date.now() / 1000);
    const signature = createHmac("sha256", secret)
      .update(`${timestamp}.${body}`).digest("hex");
    return { [header]: `t=${timestamp},v1=${signature}` };
  };
}

/** A header with the hex HMAC of the body. */
export function plainSignature(
  header: string,
  secret: string,
): RequestShape["headers"] {
  return (body) => ({
    [header]: createHmac("sha256", secret).update(body).digest("hex"),
  });
}

/** Digits of base 62, in byte order. */
export const BASE_62 =
  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Where Stripe's IDs begin to count, in Unix seconds (from published IDs). */
export const FIRST_SECOND = 1_342_389_380;

/** The same in all IDs of one account. */
export const ACCOUNT = "Bx7kQ2mVr4";

/**
 * Returns a new ID as Stripe makes them: five characters count seconds, so IDs
 * sort nearly as they were created; ten are the account's, eight are random.
 *
 * @param prefix such as `evt`
 * @param seconds Unix time
 */
export function stripeId(prefix: string, seconds: number): string {
  const digit = (number: number) => BASE_62[Math.floor(number) % 62];
  const time = [4, 3, 2, 1, 0].map((place) =>
    digit((seconds - FIRST_SECOND) / 62 ** place)
  );
  const random = Array.from({ length: 8 }, () => digit(Math.random() * 62));
  return `${prefix}_1${time.join("")}${ACCOUNT}${random.join("")}`;
}
