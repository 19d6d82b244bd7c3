import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import type { Settings } from "../../supabase/functions/billing-worker/index.ts";
import { isLoopback } from "../common/loopback.ts";
import { openApi, settingsOf } from "../common/project_api.ts";
import {
  answerTo,
  check,
  Failed,
  type Findings,
  type Here,
  instructionsFor,
  notRefused,
  orSkip,
  type Project,
  RUN_MS,
  Skipped,
  type Target,
} from "./check.ts";
import { checkSettings } from "./settings.ts";

/** A mail API's rate limit passes sooner; a quota does not. */
const LIMITED_MS = 60 * 60 * 1000;

export async function* checkProject(
  { projectUrl, secretKey, provider }: Target,
  here: Here,
): Findings {
  const project = () => orSkip(projectUrl, "needs SUPABASE_URL");
  const key = () => orSkip(secretKey, "needs SUPABASE_SECRET_KEY");
  const workerUrl = () => `${project()}/functions/v1/billing-worker`;

  const worker = await check("worker", () => checkWorker(workerUrl(), here));
  yield worker;
  let settings: Partial<Settings> | undefined;
  yield check("worker's key", async () => {
    if (worker.state === "FAIL") throw new Skipped("fix the worker first");
    settings = await readSettings(workerUrl(), key(), here);
    return "the worker accepts it";
  });

  const read: Project["read"] = async (name, query) => {
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
    const { schedule } = instructionsFor(project());
    throw new Failed(`the schedule has ${fault}. ${schedule}`);
  });

  const known = { ...here, url: projectUrl ?? "", provider, health, read };
  if (settings) yield* checkSettings(settings, known);

  yield check("failures", async () => {
    const row = await health;
    if (row?.open_failures === 0) return "none is open";
    throw new Failed(
      `${row?.open_failures} open, the oldest since ${row?.oldest_open_failure}. select * from billing.open_failures; docs/operate.md says what to do for each error code`,
    );
  });
  yield check("notifications", () => checkNotifications(known));
  yield* findWarnings(known);
  yield check("live and test", () => checkModes(known));
  yield check("REST API", async () => {
    await answered;
    return "exposes schema public, with the receiver's views";
  });
}

/** If the API fails, another check says so. */
async function* findWarnings({ health, read }: Project): Findings {
  const row = await health.catch(() => undefined);
  if (row === undefined) return;
  const { erased_purchases: purchases, double_subscribed: payTwice } = row;
  const lost = await onlyFree(read).catch(() => []);
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

async function checkNotifications(
  { health, read, clock }: Project,
): Promise<string> {
  const { notifications_given_up: givenUp, notifications_pending: waiting } =
    await health ?? {};
  if (givenUp) {
    throw new Failed(
      `given up: ${givenUp}. select * from billing.notifications where status in ('dead', 'undeliverable'); docs/operate.md says how to send them again`,
    );
  }

  const ago = (ms: number) => new Date(clock() - ms).toISOString();
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

  return `${waiting ?? 0} waiting to be sent, none given up or failing`;
}

/** Returns the features that no other plan has. */
async function onlyFree(read: Project["read"]): Promise<string[]> {
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
  { url, provider, health, read }: Project,
): Promise<string> {
  await health;
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
  const set = isLoopback(url)
    ? `Set ${setting} in supabase/functions/.env`
    : `supabase secrets set ${setting}`;
  throw new Failed(
    `test subscriptions are recorded beside live ones. ${set}, then delete the test records: docs/stripe.md, "Live and test events"`,
  );
}
