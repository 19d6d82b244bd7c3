import {
  PROVIDER_NAMES,
  type ProviderName,
  providerSettings,
} from "../common/provider_settings.ts";
import {
  type Environment,
  LOCAL_SIGNING_SECRETS,
} from "../common/environment.ts";
import type { Stack } from "./stack.ts";

const EVENT = "customer.subscription.created";
const STANDARD_API_PORT = 54321;

/**
 * What a developer needs to know of a stack that runs: addresses, keys,
 * secrets, and what to do next.
 *
 * @param options.env the functions' settings
 * @param options.dataDir where the data is kept
 * @param options.isUsual whether that is where it is kept unless told
 * @param options.run how this project's commands are run here
 */
export function announcement(
  stack: Pick<Stack, "urls" | "keys" | "dbUrl">,
  options: {
    env: Environment;
    dataDir: string;
    isUsual: boolean;
    run: string;
  },
): string {
  const { urls, keys, dbUrl } = stack;
  const { env, dataDir, isUsual, run } = options;
  const reset = `${run} reset${isUsual ? "" : ` --data ${dataDir}`}`;
  const url = new URL(urls.api).port === `${STANDARD_API_PORT}`
    ? ""
    : ` --url ${urls.webhook}`;
  const facts = [
    ["Webhook", urls.webhook],
    ["", `${urls.api}/api/billing/webhook`],
    ["", `${urls.webhookProcess}/billing-webhook (without the gateway)`],
    ["REST API", urls.rest],
    ["Database", dbUrl],
    ["Secret key", keys.secret],
    ["Publishable key", keys.publishable],
    ...PROVIDER_NAMES.map((name) => [`Provider ${name}`, describe(name, env)]),
    ["Notifications", describeChannel(env)],
    ["Data", dataDir],
  ] as const;
  return [
    ...facts.map(([name, value]) => `  ${name.padEnd(16)} ${value}`),
    "",
    "Send a first event, from a second terminal:",
    `  ${run} trigger ${EVENT}${url}`,
    "See what it did:",
    `  psql ${dbUrl} -c 'table subscriptions'`,
    `  curl -H 'apikey: ${keys.secret}' ${urls.rest}/subscriptions`,
    `Stop with Ctrl-C. The data stays; "${reset}" empties it.`,
    "",
  ].join("\n");
}

function describe(name: ProviderName, env: Environment): string {
  try {
    const { header, scheme } = providerSettings(env, name);
    const variable = `PROVIDER_${name.toUpperCase()}_SIGNING_SECRET`;
    return `${header} (${scheme}), signing secret ${
      isPublic(env[variable]) ? env[variable] : `of ${variable}`
    }`;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The local stack's own secrets are in its source; no other is printed. */
function isPublic(secret: string | undefined): boolean {
  return Object.values<unknown>(LOCAL_SIGNING_SECRETS).includes(secret);
}

function describeChannel(env: Environment): string {
  const url = env["NOTIFICATION_URL"];
  // Of some services' URLs, path and query are the secret.
  if (url) return `sent to ${URL.parse(url)?.host || "NOTIFICATION_URL"}`;
  if (env["RESEND_API_KEY"]) return "sent by e-mail";
  return "verified and printed here";
}
