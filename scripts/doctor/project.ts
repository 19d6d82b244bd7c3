import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { whyUnsafeToAcknowledge } from "../../supabase/functions/billing-webhook/check_acknowledged.ts";
import type { Settings } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { isLoopback } from "../common/loopback.ts";
import type { ProviderName } from "../common/sign.ts";
import {
  openApi,
  type Query,
  type Row,
  type Views,
} from "../common/project_api.ts";
import {
  check,
  Failed,
  type Findings,
  type Here,
  instructionsFor,
  orSkip,
  Skipped,
  type Target,
  Warned,
} from "./check.ts";
import { acceptsKey, areListed, isRead, refusesCalls } from "./worker.ts";

/** The schedule wakes the worker every minute. */
const RUN_MS = 5 * 60 * 1000;
/** A mail API's limit per second or minute passes sooner; a quota does not. */
const LIMITED_MS = 60 * 60 * 1000;

type Read = <Name extends keyof Views>(
  name: Name,
  query?: Query,
) => Promise<Row<Name>[]>;

export async function* checkProject(
  { projectUrl, secretKey, provider }: Target,
  here: Here,
): Findings {
  const project = () => orSkip(projectUrl, "needs SUPABASE_URL");
  const key = () => orSkip(secretKey, "needs SUPABASE_SECRET_KEY");
  const workerUrl = () => `${project()}/functions/v1/billing-worker`;

  const worker = await check("worker", () => refusesCalls(workerUrl(), here));
  yield worker;
  let settings: Partial<Settings> | undefined;
  yield check("worker's key", async () => {
    if (worker.state === "FAIL") throw new Skipped("fix the worker first");
    settings = await acceptsKey(workerUrl(), key(), here);
    return "the worker accepts it";
  });

  const read: Read = async (name, query = {}) => {
    const access = { projectUrl: project(), secretKey: key() };
    if (worker.isDown) throw new Skipped("fix the worker first");
    return await openApi(access, here).read(name, query)
      .catch(({ message }: Error) => {
        throw new Failed(message);
      });
  };
  const answered = read("billing_health").then(([row]) => row);
  // If the API fails, only its own check does; the others that need it are skipped.
  const health = answered.catch((error) => {
    if (!(error instanceof Failed)) throw error;
    throw new Skipped("fix the REST API first");
  });

  yield check("worker's runs", async () => {
    const ranAt = (await health)?.last_scheduled_run_at;
    if (here.clock() - Date.parse(ranAt ?? "") <= RUN_MS) {
      return `the schedule last woke it at ${ranAt}`;
    }
    const fault = ranAt
      ? `not woken it with success since ${ranAt}`
      : "never woken it";
    const { schedule } = instructionsFor(project(), "billing-worker");
    throw new Failed(`the schedule has ${fault}. ${schedule}`);
  });

  const { acknowledging = [], hasAlerts = false } = settings ?? {};
  if (acknowledging.length > 0) {
    yield check("acknowledged", async () => {
      const lack = whyUnsafeToAcknowledge({
        lastScheduledRunAt: (await health)?.last_scheduled_run_at ?? null,
        hasAlerts,
        nowMs: here.clock(),
      });
      if (lack === undefined) return "failures are retried, and reported";
      throw new Failed(
        `failures are answered 200, and no provider sends them again, but ${lack}`,
      );
    });
  }

  const format = settings?.formats?.[provider];
  if (settings?.formats && format !== "stripe") {
    const isAcknowledged = acknowledging.includes(provider);
    yield check("format", () => isRead(format, provider, isAcknowledged));
  }

  const known = await health.catch(() => undefined);
  const { handledTypes: types = [], handledTypesFault: fault } = settings ?? {};
  const functions = known?.handlers;
  if (settings && functions && (fault || types.length + functions.length > 0)) {
    yield check("handlers", () => {
      const { set } = instructionsFor(project());
      if (!fault) return areListed(types, functions, set);
      throw new Failed(
        `${fault}. Until you correct it ${set}, every event fails whose type the receiver does not handle itself`,
      );
    });
  }

  yield check("failures", async () => {
    const row = await health;
    if (row?.open_failures === 0) return "none is open";
    throw new Failed(
      `${row?.open_failures} open, the oldest since ${row?.oldest_open_failure}. select * from billing.open_failures; docs/operate.md says what to do for each error code`,
    );
  });
  yield check("notifications", async () => areSent(await health, read, here));
  const purchases = known?.erased_purchases;
  if (purchases) {
    yield check("erased accounts", () => {
      throw new Warned(
        `events of theirs that would have made a record: ${purchases}. Somebody may be paying for nothing: docs/operate.md, "Delete an account"`,
      );
    });
  }
  yield check("live and test", async () => {
    await health;
    return await areOfOneMode(provider, read, project());
  });
  yield check("REST API", async () => {
    await answered;
    return "exposes schema public, with the receiver's views";
  });
}

async function areSent(
  health: Row<"billing_health"> | undefined,
  read: Read,
  here: Here,
) {
  const givenUp = health?.notifications_given_up ?? 0;
  if (givenUp > 0) {
    throw new Failed(
      `given up: ${givenUp}. select * from billing.notifications where status in ('dead', 'undeliverable'); docs/operate.md says how to send them again`,
    );
  }

  const ago = (ms: number) => new Date(here.clock() - ms).toISOString();
  const [overdue] = await read("billing_notifications", {
    select: "next_attempt_at",
    status: "eq.pending",
    next_attempt_at: `lt.${ago(RUN_MS)}`,
    order: "next_attempt_at",
    limit: "1",
  });
  // Many at once take their time at a mail API's rate.
  const [sent] = await read("billing_notifications", {
    select: "sent_at",
    sent_at: `gt.${ago(RUN_MS)}`,
    limit: "1",
  });
  if (overdue !== undefined && sent === undefined) {
    throw new Failed(
      `one has been due since ${overdue.next_attempt_at}. Set a channel, NOTIFICATION_URL or RESEND_API_KEY; if one is set, look at the worker's log: the channel may have asked for a pause`,
    );
  }

  // One failed attempt is no fault: the next is made after seconds. A refusal with
  // 429 is not counted.
  const [failing] = await read("billing_notifications", {
    select: "last_error",
    status: "eq.pending",
    last_error: "not.is.null",
    next_attempt_at: `gt.${ago(0)}`,
    or: `(attempts.gte.2,created_at.lt.${ago(LIMITED_MS)})`,
    limit: "1",
  });
  if (failing !== undefined) {
    const error = failing.last_error?.replace(/\.$/, "")
      .replace(/^(.{160}).+/su, "$1…");
    throw new Failed(
      `one keeps failing, with the error: ${error}. Fix what the error names. It is sent at the next attempt, which may be hours away, or at once: docs/operate.md, "Notifications that do not arrive"`,
    );
  }

  const waiting = health?.notifications_pending ?? 0;
  if (waiting === 0) return "none waits, was given up or keeps failing";
  const wait = waiting === 1 ? "waits" : "wait";
  return `${waiting} ${wait} to be sent; none was given up or keeps failing`;
}

/** Looks at the mode of records: the mode that a deployment has set cannot be read. */
async function areOfOneMode(
  provider: ProviderName,
  read: Read,
  project: string,
): Promise<string> {
  const has = async (livemode: boolean) => {
    const rows = await read("billing_subscriptions", {
      select: "id",
      provider: `eq.${provider}`,
      livemode: `is.${livemode}`,
      limit: "1",
    });
    return rows.length > 0;
  };
  const hasLive = await has(true);
  const hasTest = await has(false);

  const setting = `${settingsPrefix(provider)}MODE=live`;
  if (!hasLive) {
    return hasTest
      ? `no live subscription is recorded; before real payments, set ${setting}`
      : "no recorded subscription says its mode yet";
  }
  if (!hasTest) return "no test subscription is recorded";
  const set = isLoopback(project)
    ? `Set ${setting} in supabase/functions/.env`
    : `supabase secrets set ${setting}`;
  throw new Failed(
    `test subscriptions are recorded beside live ones. ${set}, then delete the test records: docs/stripe.md, "Live and test events"`,
  );
}
