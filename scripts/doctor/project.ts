import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import type { FormatName } from "../../supabase/functions/_shared/billing/events/formats.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { whyUnsafeToAcknowledge } from "../../supabase/functions/billing-webhook/check_acknowledged.ts";
import type { Settings } from "../../supabase/functions/billing-worker/index.ts";
import { isLoopback } from "../common/loopback.ts";
import type { ProviderName } from "../common/sign.ts";
import { openApi, type Row, settingsOf } from "../common/project_api.ts";
import {
  answerTo,
  check,
  Failed,
  type Findings,
  type Here,
  instructionsFor,
  notRefused,
  orSkip,
  Skipped,
  type Target,
  Warned,
} from "./check.ts";

/** The schedule wakes the worker every minute, so this is late. */
const RUN_MS = 5 * 60 * 1000;
/** A mail API's rate limit passes sooner; a quota does not. */
const LIMITED_MS = 60 * 60 * 1000;

/** Why failures should be acknowledged to providers that soon stop sending. */
const IMPATIENT: Partial<Record<FormatName, string>> = {
  polar: "Polar disables an endpoint after 10 failures in a row",
  "lemon-squeezy": "Lemon Squeezy sends an event 4 times in 2.5 minutes",
};

/** Those whose provider's API lists events. */
const SWEPT_FORMATS: readonly FormatName[] = ["stripe", "paddle"];
/** As for the alert. */
const SWEEP_MS = 3 * 60 * 60 * 1000;

type Read = ReturnType<typeof openApi>["read"];

export async function* checkProject(
  { projectUrl, secretKey, provider }: Target,
  here: Here,
): Findings {
  const project = () => orSkip(projectUrl, "needs SUPABASE_URL");
  const key = () => orSkip(secretKey, "needs SUPABASE_SECRET_KEY");
  const workerUrl = () => `${project()}/functions/v1/billing-worker`;
  const to = () => instructionsFor(project(), "billing-webhook billing-worker");

  const worker = await check("worker", () => checkWorker(workerUrl(), here));
  yield worker;
  let settings: Partial<Settings> | undefined;
  yield check("worker's key", async () => {
    if (worker.state === "FAIL") throw new Skipped("fix the worker first");
    settings = await readSettings(workerUrl(), key(), here);
    return "the worker accepts it";
  });

  const read: Read = async (name, query) => {
    const access = { projectUrl: project(), secretKey: key() };
    if (worker.isDown) throw new Skipped("fix the worker first");
    return await openApi(access, here).read(name, query)
      .catch(({ message }: Error) => {
        throw new Failed(message);
      });
  };
  const answered = read("billing_health", {}).then(([row]) => row);
  // If the API fails, only its own check fails; the others are skipped.
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
      ? `not woken it successfully since ${ranAt}`
      : "never woken it";
    throw new Failed(`the schedule has ${fault}. ${to().schedule}`);
  });

  const { acknowledging = [], hasAlerts = false } = settings ?? {};
  if (acknowledging.length > 0) {
    yield check("acknowledged", async () => {
      const { last_scheduled_run_at } = (await health) ?? {};
      const nowMs = here.clock();
      const danger = whyUnsafeToAcknowledge(
        last_scheduled_run_at,
        hasAlerts,
        nowMs,
      );
      if (danger === undefined) return "failures are retried, and reported";
      throw new Failed(
        `failed events are answered 200, so providers do not send them again, but ${danger}`,
      );
    });
  }

  const format = settings?.formats?.[provider];
  if (settings?.formats && format !== "stripe") {
    yield check(
      "format",
      () => checkFormat(format, provider, acknowledging.includes(provider)),
    );
  }

  const keyFault = settings?.sweeps?.[provider];
  const listsEvents = format && SWEPT_FORMATS.includes(format);
  if (settings?.sweeps && format && (listsEvents || keyFault)) {
    yield check("sweep", async () => {
      const key = `${settingsPrefix(provider)}API_KEY`;
      if (keyFault === undefined) {
        throw new Skipped(
          `off: nothing finds events that never arrive. Set ${key} ${to().set}: docs/sweep.md`,
        );
      }
      if (keyFault !== null) {
        const text = `${keyFault}: docs/sweep.md`;
        throw listsEvents ? new Failed(text) : new Warned(text);
      }
      return await checkSweep(provider, await health, read, here);
    });
  }

  const known = await health.catch(() => undefined);
  const { schemaVersion: expected } = settings ?? {};
  const version = known?.schema_version;
  if (expected && version && expected !== version) {
    yield check("version", () => {
      const { migrate, deploy } = to();
      throw new Failed(
        expected > version
          ? `the worker is newer than the database: ${migrate}`
          : `the worker is older than the database, and the webhook may be, too: ${deploy}`,
      );
    });
  }

  const { handledTypes: types = [], handledTypesFault: fault } = settings ?? {};
  const functions = known?.handlers;
  if (settings && functions && (fault || types.length + functions.length > 0)) {
    yield check("handlers", () => {
      const { set } = to();
      if (!fault) return checkHandlers(types, functions, set);
      throw new Failed(
        `${fault}. Until you correct it ${set}, events of types that the receiver does not handle itself fail`,
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
  yield check(
    "notifications",
    async () => checkNotifications(await health, read, here),
  );
  const { erased_purchases: purchases, double_subscribed: payTwice } = known ??
    {};
  // If the API fails, another check says so.
  const lost = known ? await onlyFree(read).catch(() => []) : [];
  const warnings = {
    "erased accounts": purchases &&
      `events of erased accounts that would have made records: ${purchases}. Someone may be paying for nothing: docs/operate.md, "Delete an account"`,
    "paid twice": payTwice &&
      `accounts that pay for more than one subscription: ${payTwice}. select * from billing.double_subscribed;`,
    features: lost.length > 0 &&
      `only the plan free has ${
        lost.join(", ")
      }, so subscribers lack it. Each plan lists all that it includes: add rows to billing.plan_features`,
  };
  for (const [name, text] of Object.entries(warnings)) {
    if (text) yield { name, state: "warning", text };
  }

  yield check("live and test", async () => {
    await health;
    return await checkModes(provider, read, project());
  });
  yield check("REST API", async () => {
    await answered;
    return "exposes schema public, with the receiver's views";
  });
}

async function checkWorker(url: string, here: Here): Promise<string> {
  const { reach } = instructionsFor(url);
  const reply = await answerTo(url, { method: "POST" }, here, reach);

  // @supabase/server sends this header with a refusal. Supabase's gateway does not,
  // and would refuse the schedule's key as well.
  if (reply.status === 401 && reply.headers.has("x-supabase-server-error")) {
    return "refuses a call without a key with 401";
  }
  throw notRefused(reply, url, "billing-worker");
}

export async function readSettings(url: string, key: string, here: Here) {
  const to = instructionsFor(url, "billing-worker");
  const init = { method: "POST", headers: { apikey: key } };
  // With this queue, the worker does nothing, and records no run of the schedule.
  const { status, body } = await answerTo(`${url}?queue=none`, init, here);

  if (status === 200) return settingsOf({ status, body });
  throw new Failed(
    status === 401
      ? `refuses the secret key. ${to.secretKey}`
      : `answered ${status}. Its log has the reason (${to.log})`,
  );
}

function checkFormat(
  format: FormatName | undefined,
  provider: ProviderName,
  isAcknowledged: boolean,
): string {
  const prefix = settingsPrefix(provider);
  if (format === undefined) {
    throw new Failed(
      `${prefix}FORMAT is wrong, so all deliveries are refused: docs/providers.md has its values`,
    );
  }
  const why = IMPATIENT[format];
  if (!why || isAcknowledged) return `events are read as ${format}`;
  throw new Warned(
    `${why}. supabase secrets set ${prefix}FAILURES=acknowledge: docs/providers.md`,
  );
}

async function checkSweep(
  provider: ProviderName,
  health: Row<"billing_health"> | undefined,
  read: Read,
  here: Here,
): Promise<string> {
  const [row] = await read("billing_sweeps", { provider: `eq.${provider}` });
  const isPast = (time: string, ms: number) =>
    here.clock() - Date.parse(time) > ms;
  const wait = "waits for the schedule: run this again in ten minutes";
  if (row === undefined || isPast(row.wanted_at, RUN_MS)) {
    throw new Skipped(wait);
  }

  const { last_success_at: at, last_error: error, wanted_since } = row;
  const isLate = isPast(at ?? wanted_since, SWEEP_MS) &&
    isPast(wanted_since, SWEEP_MS);
  if (isLate || error?.startsWith("api_key_refused")) {
    const since = at === null ? "never succeeded" : `not succeeded since ${at}`;
    throw new Failed(
      `has ${since}. Last error: ${error ?? "unknown"}. docs/sweep.md`,
    );
  }
  if (at === null) throw new Skipped(wait);
  if (error) throw new Warned(`last succeeded at ${at}, but: ${error}`);

  const missed = health?.missed_events ?? 0;
  const text = `last succeeded at ${at}; missed in 7 days: ${missed}`;
  if (missed === 0) return text;
  throw new Warned(
    `${text}. They were applied. Check that the provider's endpoint is enabled, and has their types selected: docs/sweep.md`,
  );
}

function checkHandlers(
  types: readonly string[],
  functions: readonly string[],
  set: string,
): string {
  const faults: string[] = [];
  const list = (names: readonly string[]) =>
    names.map((name) => `billing.${name}(text, jsonb)`).join(", ");

  const missing = types.filter((type) =>
    !functions.includes(handlerName(type))
  );
  if (missing.length > 0) {
    const wanted = list(missing.map(handlerName));
    faults.push(
      `events of ${
        missing.join(", ")
      } fail: service_role cannot call ${wanted}. Create what is missing in a migration, or correct HANDLE_EVENT_TYPES ${set}`,
    );
  }

  const called = types.map(handlerName);
  const idle = functions.filter((name) => !called.includes(name));
  if (idle.length > 0) {
    faults.push(
      `no listed type calls ${
        list(idle)
      }, so it never runs. Add its type to HANDLE_EVENT_TYPES ${set}, or drop the function`,
    );
  }

  if (faults.length > 0) throw new Failed(faults.join(". "));
  return "each type in HANDLE_EVENT_TYPES has its function";
}

async function checkNotifications(
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
  // A mail API's rate limit delays the rest of many notifications.
  const [sent] = await read("billing_notifications", {
    select: "sent_at",
    sent_at: `gt.${ago(RUN_MS)}`,
    limit: "1",
  });
  if (overdue !== undefined && sent === undefined) {
    throw new Failed(
      `one has been due since ${overdue.next_attempt_at}. Set a channel, NOTIFICATION_URL or RESEND_API_KEY; if one is set, look at the worker's log`,
    );
  }

  // A single failed attempt is no fault: the next follows within seconds. Attempts
  // that were refused with 429 are not counted.
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
      `one keeps failing, with the error: ${error}. Fix what it names: docs/operate.md, "Notifications that do not arrive"`,
    );
  }

  const waiting = health?.notifications_pending ?? 0;
  return `${waiting} waiting to be sent, none given up or failing`;
}

/** Returns the features that no other plan has. */
async function onlyFree(read: Read): Promise<string[]> {
  const rowsOf = (plan_id: string, feature: string) =>
    read("billing_plan_features", { select: "feature", plan_id, feature });
  const free = await rowsOf("eq.free", "not.is.null");
  const others = await Promise.all(
    free.map(({ feature }) => rowsOf("neq.free", `eq.${feature}`)),
  );
  return free.map(({ feature }) => feature)
    .filter((_, i) => others[i]?.length === 0);
}

/** Looks at recorded subscriptions: the deployment's setting cannot be read. */
async function checkModes(
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
