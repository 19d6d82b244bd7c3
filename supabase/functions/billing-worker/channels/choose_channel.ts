import { type Environment, wholeNumber } from "../../_shared/billing/config.ts";
import { checkKey } from "../../_shared/billing/check_key.ts";
import type { Log } from "../../_shared/billing/log.ts";
import type { Channel } from "./channel.ts";
import { type AddressOf, emailChannel } from "./email_channel.ts";
import { webhookChannel } from "./webhook_channel.ts";
import { checkUrl, readSecret, required } from "./webhook_settings.ts";

/** Resend's default limit for a team. */
const EMAIL_REQUESTS_PER_SECOND = 2;

/**
 * Returns the channel that the environment configures: `NOTIFICATION_URL` has
 * priority over `RESEND_API_KEY`. Undefined, with a warning in the log, if
 * neither is set.
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
    const from = required(env, "NOTIFICATION_FROM");
    const perSecond = wholeNumber(
      env,
      "EMAIL_REQUESTS_PER_SECOND",
      EMAIL_REQUESTS_PER_SECOND,
    );
    return emailChannel({ apiKey, from, perSecond, addressOf, clock });
  }
  log(
    "warn",
    "no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY",
  );
  return undefined;
}
