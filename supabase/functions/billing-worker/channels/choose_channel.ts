import {
  cannotStart,
  type Environment,
  wholeNumber,
} from "../../_shared/billing/environment.ts";
import {
  checkKey,
  isSafeUrl,
} from "../../_shared/billing/settings/deployment.ts";
import type { Log } from "../../_shared/billing/log.ts";
import type { Alert, Channel } from "./channel.ts";
import { type AddressOf, emailChannel } from "./email_channel.ts";
import { slackChannel } from "./slack_channel.ts";
import { alertChannel, webhookChannel } from "./webhook_channel.ts";

/** The hosts of incoming webhooks of Slack and GovSlack. */
const SLACK_HOST = /^hooks\.slack(?:-gov)?\.com$/;

/** At least 12 bytes; some tools omit the padding. */
const SECRET =
  /^whsec_(?:[A-Za-z0-9+/]{4}){4,}(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

/**
 * Returns the channel for notifications; undefined if none is configured.
 *
 * @throws {Error} If a variable is missing or wrong; names it, never its value.
 */
export function chooseChannel(
  env: Environment,
  { fetch, addressOf, clock, log }: {
    fetch: typeof globalThis.fetch;
    addressOf: AddressOf;
    clock: () => number;
    log: Log;
  },
): Channel | undefined {
  const { NOTIFICATION_URL: url, RESEND_API_KEY: apiKey } = env;

  if (url) {
    if (apiKey) {
      log(
        "warn",
        "RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them",
      );
    }
    checkUrl(url, "NOTIFICATION_URL");
    const secret = readSecret(env, "NOTIFICATION_SIGNING_SECRET");
    return webhookChannel(url, { secret, fetch, clock });
  }

  if (apiKey) {
    checkKey(apiKey, "Cannot start: RESEND_API_KEY");
    const baseUrl = env["RESEND_BASE_URL"] || "https://api.resend.com";
    checkUrl(baseUrl, "RESEND_BASE_URL");
    return emailChannel({
      url: baseUrl,
      apiKey,
      from: required(env, "NOTIFICATION_FROM"),
      // By default, Resend's limit for a team.
      perSecond: wholeNumber(env, "EMAIL_REQUESTS_PER_SECOND", 2),
      addressOf,
      fetch,
      clock,
    });
  }

  log(
    "warn",
    "no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY",
  );
  return undefined;
}

/** Returns the channel for alerts to the operator; undefined if none is configured. */
export function chooseAlertChannel(
  env: Environment,
  options: { fetch: typeof globalThis.fetch; clock: () => number },
): Channel<Alert> | undefined {
  const { ALERT_URL: url } = env;
  if (!url) return undefined;
  checkUrl(url, "ALERT_URL");

  if (SLACK_HOST.test(new URL(url).hostname)) {
    return slackChannel(url, { projectUrl: env.SUPABASE_URL, ...options });
  }
  const secret = readSecret(env, "ALERT_SIGNING_SECRET");
  return alertChannel(url, { secret, ...options });
}

function checkUrl(text: string, name: string): void {
  if (!isSafeUrl(text)) {
    cannotStart(`${name} must be an https URL (or http for localhost).`);
  }
  const { username, password } = new URL(text);
  if (username || password) {
    cannotStart(`${name} must not contain a user name or password.`);
  }
}

function readSecret(env: Environment, name: string): string {
  const secret = required(env, name);
  if (!SECRET.test(secret)) {
    cannotStart(
      `${name} must be whsec_ followed by base64 of at least 12 bytes. Create one with: echo whsec_$(openssl rand -base64 32)`,
    );
  }
  return secret;
}

function required(env: Environment, name: string): string {
  return env[name] || cannotStart(
    `${name} is not set. supabase/functions/.env.example describes it.`,
  );
}
