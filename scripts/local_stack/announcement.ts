import { isPublished } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import {
  readFormatName,
  readOfEach,
  settingsPrefix,
} from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { asTyped, type Environment } from "../common/environment.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
  providerSettings,
} from "../common/sign.ts";
import { eventTypesOf } from "../events/provider_events.ts";
import { LOCAL_PROJECT_URL } from "../common/loopback.ts";
import type { Stack } from "./stack.ts";

type Fact = readonly [name: string, value: string];

/** Returns the text that `start` prints when the stack is ready. */
export function announcement(
  stack: Pick<Stack, "urls" | "keys" | "dbUrl">,
  { env, dataDir, isDefault }: {
    env: Environment;
    dataDir: string;
    isDefault: boolean;
  },
): string {
  const { urls, keys, dbUrl } = stack;
  const [first] = eventTypesOf(
    readOfEach(env, readFormatName)["a"] ?? "stripe",
  );

  // Other commands find a stack in the default place by themselves.
  const quoted = `'${dataDir.replaceAll("'", "'\\''")}'`;
  const data = isDefault ? "" : ` --data ${quoted}`;
  const isFound = isDefault || urls.api === LOCAL_PROJECT_URL;
  const url = isFound ? "" : ` --url ${urls.webhook}`;
  const projectUrl = isFound ? "" : ` --project-url ${urls.api}`;

  const facts: readonly Fact[] = [
    ["Webhook", urls.webhook],
    ["", `${urls.api}/api/billing/webhook`],
    ["", `${urls.webhookProcess}/billing-webhook (without the gateway)`],
    ["REST API", urls.rest],
    ["Database", dbUrl],
    ["Secret key", keys.secret],
    ["Publishable key", keys.publishable],
    ...PROVIDER_NAMES.flatMap((name) => describe(name, env)),
    ["Notifications", describeDestination(env)],
    ["Data", dataDir],
  ];

  return [
    ...facts.map(([name, value]) => `  ${name.padEnd(16)} ${value}`),
    "",
    "Send a first event, from a second terminal:",
    `  ${asTyped("trigger")} ${first}${url}`,
    "See what it did:",
    `  psql ${dbUrl} \\\n    -c 'select id, account_id, status, plan_id from billing.subscriptions'`,
    `  curl -H 'apikey: ${keys.secret}' \\\n    ${urls.rest}/billing_subscriptions`,
    "If an event fails, see why, and repair it:",
    `  ${asTyped("console")}${projectUrl}`,
    "",
    `Stop with Ctrl-C. The data is kept; "${
      asTyped("reset")
    }${data}" deletes it.`,
    "",
  ].join("\n");
}

function describe(name: ProviderName, env: Environment): readonly Fact[] {
  const variable = `${settingsPrefix(name)}SIGNING_SECRET`;
  const secret = env[variable] ?? "";
  try {
    const { header, scheme } = providerSettings(env, name);
    return [
      [`Provider ${name}`, `${header} (${scheme}), signing secret`],
      // The local stack's own secrets are in its source.
      ["", isPublished(secret) ? secret : `from ${variable}`],
    ];
  } catch (error) {
    return [[`Provider ${name}`, (error as Error).message]];
  }
}

function describeDestination(env: Environment): string {
  const url = env["NOTIFICATION_URL"];
  // The path and query of some services' URLs are secret.
  if (url) return `sent to ${URL.parse(url)?.host || "NOTIFICATION_URL"}`;
  if (env["RESEND_API_KEY"]) return "sent by e-mail";
  return "verified and printed here";
}
