import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { whyUnsafeToAcknowledge } from "../../supabase/functions/billing-webhook/check_acknowledged.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import type { FormatName } from "../../supabase/functions/_shared/billing/events/formats.ts";
import type { Settings } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  openApi,
  type Query,
  settingsOf,
  type Views,
} from "../common/project_api.ts";
import {
  answerTo,
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

/** The schedule wakes the worker every minute. */
const RUN_MS = 5 * 60 * 1000;
/** A mail API's limit per second or minute passes sooner; a quota does not. */
const LIMITED_MS = 60 * 60 * 1000;

/** Providers that soon stop sending, or stop sending an event. */
const IMPATIENT: Partial<Record<FormatName, string>> = {
  polar: "Polar disables an endpoint after 10 failures in a row",
  "lemon-squeezy": "Lemon Squeezy sends an event 4 times in 2.5 minutes",
};

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

  async function read<Name extends keyof Views>(name: Name, query: Query = {}) {
    const access = { projectUrl: project(), secretKey: key() };
    if (worker.isDown) throw new Skipped("fix the worker first");
    return await openApi(access, here).read(name, query)
      .catch(({ message }: Error) => {
        throw new Failed(message);
      });
  }
  const answered = read("billing_health").then(([row]) => row);
  // What stops all of them is one fault.
  const health = answered.catch((error) => {
    if (!(error instanceof Failed)) throw error;
    throw new Skipped("fix the REST API first");
  });
  yield check("worker's runs", async () => {
    const ranAt = (await health)?.last_scheduled_run_at;
    if (here.clock() - Date.parse(ranAt ?? "") <= RUN_MS) {
      return `the schedule last woke it at ${ranAt}`;
    }
    const { schedule } = instructionsFor(project(), "billing-worker");
    throw new Failed(
      `the schedule has ${
        ranAt ? `not woken it with success since ${ranAt}` : "never woken it"
      }. ${schedule}`,
    );
  });
  const { acknowledging = [], hasAlerts = false } = settings ?? {};
  if (acknowledging.length > 0) {
    yield check("acknowledged", async () => {
      const lack = whyUnsafeToAcknowledge({
        lastScheduledRunAt: (await health)?.last_scheduled_run_at ?? null,
        ...{ hasAlerts, nowMs: here.clock() },
      });
      if (lack === undefined) return "failures are retried, and reported";
      throw new Failed(
        `failures are answered 200, and no provider sends them again, but ${lack}`,
      );
    });
  }
  const format = settings?.formats?.[provider];
  if (settings?.formats && format !== "stripe") {
    yield check("format", () => {
      const prefix = settingsPrefix(provider);
      if (format === undefined) {
        throw new Failed(
          `${prefix}FORMAT is wrong, so all deliveries are refused: docs/providers.md has its values`,
        );
      }
      const why = IMPATIENT[format];
      if (why === undefined || acknowledging.includes(provider)) {
        return `events are read as ${format}`;
      }
      throw new Warned(
        `${why}. supabase secrets set ${prefix}FAILURES=acknowledge: docs/providers.md`,
      );
    });
  }
  const { handledTypes: types = [], handledTypesFault: fault } = settings ?? {};
  const functions = (await health.catch(() => undefined))?.handlers;
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
  yield check("notifications", async () => {
    const givenUp = (await health)?.notifications_given_up ?? 0;
    if (givenUp > 0) {
      throw new Failed(
        `given up: ${givenUp}. select * from billing.notifications where status in ('dead', 'undeliverable'); docs/operate.md says how to send them again`,
      );
    }
    const ago = (ms: number) => new Date(here.clock() - ms).toISOString();
    const pending = { status: "eq.pending", limit: "1" };
    const [overdue] = await read("billing_notifications", {
      ...{ ...pending, select: "next_attempt_at", order: "next_attempt_at" },
      next_attempt_at: `lt.${ago(RUN_MS)}`,
    });
    // Many at once take their time at a mail API's rate.
    const [sent] = await read("billing_notifications", {
      ...{ select: "sent_at", sent_at: `gt.${ago(RUN_MS)}`, limit: "1" },
    });
    if (overdue !== undefined && sent === undefined) {
      throw new Failed(
        `one has been due since ${overdue.next_attempt_at}. Set a channel, NOTIFICATION_URL or RESEND_API_KEY; if one is set, look at the worker's log: the channel may have asked for a pause`,
      );
    }
    // One failed attempt is no fault: the next is made after seconds. A refusal with
    // 429 is not counted.
    const [failing] = await read("billing_notifications", {
      ...{ ...pending, select: "last_error", last_error: "not.is.null" },
      next_attempt_at: `gt.${ago(0)}`,
      or: `(attempts.gte.2,created_at.lt.${ago(LIMITED_MS)})`,
    });
    if (failing === undefined) {
      const waiting = (await health)?.notifications_pending ?? 0;
      return waiting === 0
        ? "none waits, was given up or keeps failing"
        : `${waiting} ${
          waiting === 1 ? "waits" : "wait"
        } to be sent; none was given up or keeps failing`;
    }
    const error = failing.last_error?.replace(/\.$/, "")
      .replace(/^(.{160}).+/su, "$1…");
    throw new Failed(
      `one keeps failing, with the error: ${error}. Fix what the error names. It is sent at the next attempt, which may be hours away, or at once: docs/operate.md, "Notifications that do not arrive"`,
    );
  });
  const purchases = (await health.catch(() => undefined))?.erased_purchases;
  if (purchases) {
    yield check("erased accounts", () => {
      throw new Warned(
        `events of theirs that would have made a record: ${purchases}. Somebody may be paying for nothing: docs/operate.md, "Delete an account"`,
      );
    });
  }
  // The mode that the deployment has set cannot be asked for, only what it let in.
  const has = async (livemode: boolean) => {
    await health;
    const one = { select: "id", provider: `eq.${provider}`, limit: "1" };
    const query = { ...one, livemode: `is.${livemode}` };
    return (await read("billing_subscriptions", query)).length > 0;
  };
  yield check("live and test", async () => {
    const setting = `${settingsPrefix(provider)}MODE=live`;
    const [live, test] = [await has(true), await has(false)];
    if (!live) {
      return test
        ? `no live subscription is recorded; before real payments, set ${setting}`
        : "no recorded subscription says its mode yet";
    }
    if (!test) return "no test subscription is recorded";
    const set = isLoopback(project())
      ? `Set ${setting} in supabase/functions/.env`
      : `supabase secrets set ${setting}`;
    throw new Failed(
      `test subscriptions are recorded beside live ones. ${set}, then delete the test records: docs/stripe.md, "Live and test events"`,
    );
  });
  yield check("REST API", async () => {
    await answered;
    return "exposes schema public, with the receiver's views";
  });
}

async function refusesCalls(url: string, here: Here): Promise<string> {
  const { deploy, log, reach } = instructionsFor(url, "billing-worker");
  const init = { method: "POST" };
  const { status, headers } = await answerTo(url, init, here, reach);
  // @supabase/server names its refusals in this header. Supabase's gateway does
  // not, and it would also refuse the schedule's key.
  if (status === 401 && headers.has("x-supabase-server-error")) {
    return "refuses a call without a key with 401";
  }
  throw new Failed(
    status === 401
      ? `refused with 401 by Supabase's key check, before it reached the worker. Keep "verify_jwt = false" in supabase/config.toml, and ${deploy}`
      : status === 404
      ? `answered 404. If the project's URL is right, ${deploy}`
      : status >= 500
      ? `answered ${status}: the worker does not start. The first lines of its log name the setting (${log})`
      : `answered ${status} instead of 401 to a call without a key. If the project's URL is right, ${deploy}`,
  );
}

/** Returns the worker's settings. The key is that with which the schedule wakes it. */
export async function acceptsKey(url: string, key: string, here: Here) {
  const to = instructionsFor(url, "billing-worker");
  const init = { method: "POST", headers: { apikey: key } };
  // So it does nothing, and does not pass for a run of the schedule.
  const { status, body } = await answerTo(`${url}?queue=none`, init, here);
  if (status === 200) return settingsOf({ status, body });
  throw new Failed(
    status === 401
      ? `refuses the secret key. ${to.secretKey}`
      : status === 503
      ? `answered 503: the database does not answer the worker. ${to.database}`
      : `answered ${status}. Its log has the reason (${to.log}). If a database function is missing: ${to.migrate}`,
  );
}

function areListed(
  types: readonly string[],
  functions: readonly string[],
  set: string,
): string {
  const wanted = types.map(handlerName);
  const missing = types.filter((type) =>
    !functions.includes(handlerName(type))
  );
  const idle = functions.filter((name) => !wanted.includes(name));
  const list = (names: readonly string[]) =>
    names.map((name) => `billing.${name}(text, jsonb)`).join(", ");
  const text = [
    missing.length > 0 &&
    `events of ${missing.join(", ")} fail: service_role cannot call ${
      list(missing.map(handlerName))
    }. Create what is missing in a migration, or correct HANDLE_EVENT_TYPES ${set}`,
    idle.length > 0 &&
    `no listed type calls ${
      list(idle)
    }, so what it would do for new events is lost. Add its type to HANDLE_EVENT_TYPES ${set}, or drop the function`,
  ].filter(Boolean).join(". ");
  if (text !== "") throw new Failed(text);
  return "each type in HANDLE_EVENT_TYPES has its function";
}
