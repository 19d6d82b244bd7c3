/**
 * Builds the requests of a benchmark before it runs: subscription updates of
 * full size, each a new event, signed.
 *
 * @module
 */
import { subscriptionEvent } from "../scripts/events/event.ts";
import { createHmac } from "node:crypto";

/** A request's head and body, and how a target wants them. */
export interface RequestShape {
  readonly path: string;
  readonly headers: (body: string) => Record<string, string>;
  readonly body: (event: object) => string;
}

const PLANS = ["price_basic", "price_team", "price_scale"];
const STATUSES = ["active", "past_due"];

/** The subscriptions that the updates are about. */
export function subscriptionIds(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `sub_bench${i}`);
}

/**
 * Writes requests to a file, each behind its length. Times go up, so no update
 * is stale, and every event has an id of its own.
 *
 * @param options.run Sets this file's events apart from other files'.
 */
export async function writeRequests(
  file: string,
  { shape, count, run, subscriptions }: {
    shape: RequestShape;
    count: number;
    run: string;
    subscriptions: readonly string[];
  },
): Promise<void> {
  const encoder = new TextEncoder();
  const start = Math.floor(Date.now() / 1000) - 3600;
  // Building an event costs more than filling in another one's ids.
  const template = JSON.stringify(subscriptionEvent(
    "customer.subscription.updated",
    {
      id: "EVENT_ID",
      subscription: "SUBSCRIPTION_ID",
      account: "acc_bench",
      plan: "PLAN_ID",
      status: "STATUS",
      previous: { status: "trialing" },
    },
  ));
  using output = await Deno.open(file, {
    write: true,
    create: true,
    truncate: true,
  });
  for (let i = 0; i < count; i++) {
    const event = JSON.parse(
      template
        .replaceAll("EVENT_ID", `evt_${run}_${i}`)
        .replaceAll(
          "SUBSCRIPTION_ID",
          subscriptions[i % subscriptions.length] ?? "",
        )
        .replaceAll("PLAN_ID", PLANS[i % PLANS.length] ?? "")
        .replaceAll("STATUS", STATUSES[i % STATUSES.length] ?? ""),
    );
    event.created = start + Math.floor(i / subscriptions.length);
    const body = shape.body(event);
    const bytes = encoder.encode(body);
    const headers = Object.entries({
      host: "127.0.0.1",
      "content-type": "application/json",
      "content-length": String(bytes.length),
      ...shape.headers(body),
    }).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const head = encoder.encode(
      `POST ${shape.path} HTTP/1.1\r\n${headers}\r\n`,
    );
    const frame = new Uint8Array(4 + head.length + bytes.length);
    new DataView(frame.buffer).setUint32(0, head.length + bytes.length, true);
    frame.set(head, 4);
    frame.set(bytes, 4 + head.length);
    await output.write(frame);
  }
}

/** Stripe's header, made by Node's HMAC: the stripe package takes ten times as long. */
export function stripeHeaders(
  { header, secret }: { header: string; secret: string },
): RequestShape["headers"] {
  const timestamp = Math.floor(Date.now() / 1000);
  return (body) => {
    const signature = createHmac("sha256", secret)
      .update(`${timestamp}.${body}`).digest("hex");
    return { [header]: `t=${timestamp},v1=${signature}` };
  };
}
