/**
 * The account's side while everything happens at once: it answers 429 now and
 * then, and in the end every notification got through.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { Sql } from "postgres";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  type NotifiedEndpoint,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import type { ServedFunction } from "../support/serve_function.ts";
import { wake } from "../support/triage.ts";
import { pause } from "./operators.ts";

const OWED = 300;
const LIMITED_SHARE = 0.02;
/** Before an answer, in milliseconds: time to lock what is under way. */
const ANSWER_TIME = 50;
/** Killed backends are found out at the next calls, one at a time. */
const MAX_ROUNDS = 10;

/** An endpoint that takes some, and how often it took each. */
export interface Account extends AsyncDisposable {
  readonly env: NotifiedEndpoint["env"];
  /** By the notification's id. */
  readonly taken: ReadonlyMap<string, number>;
  /** Answers of 429. */
  limited(): number;
  /** From now on it takes all. */
  takeAll(): void;
}

/** Starts one that answers 429 at random, with pauses of a second. */
export function startAccount(random: () => number): Account {
  const endpoint = startNotifiedEndpoint();
  const taken = new Map<string, number>();
  let limited = 0;
  let share = LIMITED_SHARE;
  endpoint.answerWith(async ({ id }) => {
    await pause(random() * ANSWER_TIME);
    if (random() < share) {
      limited++;
      return new Response("", { status: 429, headers: { "retry-after": "1" } });
    }
    taken.set(id, (taken.get(id) ?? 0) + 1);
    return new Response("OK");
  });
  return {
    env: endpoint.env,
    taken,
    limited: () => limited,
    takeAll: () => share = 0,
    [Symbol.asyncDispose]: () => endpoint[Symbol.asyncDispose](),
  };
}

/**
 * Owes notifications, due one after the other in so many seconds; others have
 * to wait.
 */
export async function oweSome(seconds: number, sql: Sql): Promise<void> {
  // Those that were settled, too: only what is not put off is looked at.
  await sql`update billing.notifications set next_attempt_at = 'infinity'`;
  await sql`
    insert into billing.notifications (
      provider, event_id, account_id, subscription_id, next_attempt_at
    )
    select
      'a', ${uniqueId("evt")} || i, 'acc_1', 'sub_1',
      now() + make_interval(secs => ${seconds} * i / ${OWED}::float)
    from generate_series(1, ${OWED}) as i`;
}

/** Ends leases and waits, and has a worker deliver what is still owed. */
export async function deliverRest(
  worker: ServedFunction,
  sql: Sql,
): Promise<void> {
  for (let rounds = 0; rounds < MAX_ROUNDS; rounds++) {
    await sql`delete from billing.pauses`;
    await sql`delete from billing.leases`;
    const due = await sql`
      update billing.notifications set next_attempt_at = now()
      where status = 'pending' and next_attempt_at < 'infinity'
      returning id`;
    if (due.length === 0) return;
    await wake(worker);
  }
  throw new Error("Some notifications do not get through");
}

/** Nothing is lost, and nothing is sent without being counted first. */
export async function assertNotified(
  { taken, limited }: Account,
  sql: Sql,
): Promise<void> {
  const rows = await sql<{ id: string; status: string; attempts: number }[]>`
    select id, status, attempts from billing.notifications
    where next_attempt_at < 'infinity'`;
  const wrong = rows.filter(({ id, status, attempts }) => {
    const times = taken.get(id) ?? 0;
    return status !== "sent" || times < 1 || times > attempts;
  });
  assertEquals(wrong.map((row) => [row, taken.get(row.id)]), []);
  const again = rows.filter(({ id }) => taken.get(id) !== 1);
  console.log(
    `${rows.length} notifications, ${again.length} of them taken again, ${limited()} answers of 429`,
  );
}
