import type { Environment } from "../../_shared/billing/config.ts";
import { alertChannel } from "./alert_channel.ts";
import type { Alert, Channel } from "./channel.ts";
import { slackChannel } from "./slack_channel.ts";
import { checkUrl, readSecret } from "./webhook_settings.ts";

/** Where Slack's incoming webhooks are. The second is GovSlack's. */
const SLACK_HOST = /^hooks\.slack(?:-gov)?\.com$/;

/**
 * Returns the channel for alerts to the operator that the environment
 * configures: `ALERT_URL`, a service of the operator or Slack. Undefined if it is
 * not set, which is no fault.
 *
 * @throws {Error} If a variable is missing or wrong; names it, never its value.
 */
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
