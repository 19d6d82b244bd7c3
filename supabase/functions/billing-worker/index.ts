/** The worker, wired to its environment. Callers need the project's secret key. */
import { verifyAuth } from "@supabase/server/core";
// Pins the version that @supabase/server works with: without this import,
// Supabase's bundler takes the newest version that matches.
import "@supabase/supabase-js";
import {
  readDeploymentSettings,
  readSecretKeys,
} from "../_shared/billing/settings/deployment.ts";
import { createClient } from "../_shared/billing/database/client.ts";
import {
  SCHEMA_VERSION,
  watchVersion,
} from "../_shared/billing/database/schema_version.ts";
import { FORMATS } from "../_shared/billing/events/formats.ts";
import { keepAlive } from "../_shared/billing/keep_alive.ts";
import { logJson } from "../_shared/billing/log.ts";
import {
  readFormatName,
  readOfEach,
  readProviderSettings,
} from "../_shared/billing/settings/providers.ts";
import {
  chooseAlertChannel,
  chooseChannel,
} from "./channels/choose_channel.ts";
import { accountEmail } from "./channels/email_channel.ts";
import { pacer } from "./deliver_notifications.ts";
import { handleWake, type Worker } from "./handle_wake.ts";
import { readKeyedProviders } from "./sweep/event_sources.ts";

const env = Deno.env.toObject();
const deployment = readDeploymentSettings(env);
const database = createClient(deployment, {
  fetch: watchVersion({ fetch, log: logJson }),
});
const providers = readOfEach(env, readProviderSettings);
const channel = chooseChannel(env, {
  fetch,
  addressOf: (accountId) => accountEmail(database, accountId),
  clock: Date.now,
  log: logJson,
});
const keyedProviders = readKeyedProviders(env, { fetch, clock: Date.now });

/** Reported to the doctor, which cannot read a project's settings. */
const settings = {
  /** The providers whose stored failures are answered 200. */
  acknowledging: Object.keys(providers)
    .filter((name) => providers[name]!.acknowledges),
  hasAlerts: Boolean(env["ALERT_URL"]),
  handledTypes: [...deployment.handlerTypes.types],
  handledTypesFault: deployment.handlerTypes.fault,
  accountFromCheckout: deployment.accountFromCheckout,
  notify: [...deployment.notify],
  planItem: deployment.planItem,
  /** By provider, without those whose setting is wrong. */
  formats: readOfEach(env, readFormatName),
  /** The providers with a key for sweeps: why it cannot be used, or null. */
  sweeps: Object.fromEntries(
    keyedProviders.map(({ provider, fault }) => [
      provider,
      fault?.message ?? null,
    ]),
  ),
  schemaVersion: SCHEMA_VERSION,
};

export type Settings = typeof settings;

const worker: Worker = {
  database,
  channel,
  alertChannel: chooseAlertChannel(env, { fetch, clock: Date.now }),
  ...deployment,
  // Without effect, a key is neither used nor an alert.
  keyedProviders: keyedProviders.filter(({ fault }) =>
    fault?.code !== "api_key_unused"
  ),
  readingSettings(provider) {
    const settings = readProviderSettings(env, provider);
    return { ...settings, format: FORMATS[settings.format] };
  },
  settings,
  log: logJson,
  clock: Date.now,
  pace: pacer(channel?.perSecond, {
    clock: Date.now,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  }),
};

for (const [provider, error] of Object.entries(settings.sweeps)) {
  if (error === null) continue;
  logJson("warn", "no sweeps of missing events", { provider, error });
}

const callers = {
  auth: "secret:*",
  env: {
    url: deployment.supabaseUrl,
    secretKeys: readSecretKeys(env),
  },
} as const;

export default {
  async fetch(request: Request): Promise<Response> {
    const { error } = await verifyAuth(request, callers);
    if (error) {
      const { code, message, status } = error;
      const headers = { "x-supabase-server-error": code };
      return Response.json({ code, message }, { status, headers });
    }

    // A run may take longer than the schedule waits for the reply.
    const run = handleWake(request, worker);
    keepAlive(run);
    return await run;
  },
};
