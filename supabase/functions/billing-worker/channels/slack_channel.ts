import { settingsPrefix } from "../../_shared/billing/settings/providers.ts";
import type { Alert, Channel, EventsMissed, SweepFailed } from "./channel.ts";
import { postMessage, type PostOptions } from "./post_message.ts";
import { alertDestination } from "./webhook_channel.ts";

/**
 * Returns a channel that sends alerts to an incoming webhook of Slack, as text. It is not
 * signed: the URL itself is the secret. Slack allows one message per second and short
 * bursts; there is at most one alert per error code, or provider.
 *
 * @see https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
 */
export function slackChannel(
  url: string,
  { projectUrl, ...options }: Omit<PostOptions, "setting"> & {
    projectUrl?: string | undefined;
  },
): Channel<Alert> {
  return {
    destination: alertDestination(url),
    send: ({ alert }) => {
      const body = JSON.stringify({ text: escape(text(alert, projectUrl)) });
      return postMessage(url, { headers: {}, body }, {
        setting: "ALERT_URL",
        ...options,
      });
    },
  };
}

/** The URL of a hosted project, which has an SQL editor. */
const HOSTED = /^https:\/\/([a-z0-9]+)\.supabase\.co\/?$/;

function text(alert: Alert["alert"], projectUrl: string | undefined): string {
  const { error_code } = alert;

  if ("handlers" in alert) {
    const handlers = alert.handlers.join(", ");
    return [
      `Billing: no type in HANDLE_EVENT_TYPES calls ${handlers}`,
      "They do not run for new events, not even later. Add their types to HANDLE_EVENT_TYPES, or drop the functions.",
    ].join("\n");
  }

  if ("resolved" in alert) {
    return [
      `Billing: no failed event with ${error_code} is open any more.`,
      `Resolved: ${alert.resolved}. Reported since ${time(alert.opened_at)}.`,
      "If more fail soon, the next alert may come up to an hour late: after a repair, look at billing.open_failures again.",
    ].join("\n");
  }

  if ("missed" in alert) return missedText(alert);
  if (!("open" in alert)) return sweepText(alert);

  const { provider, event_id, event_type = "type unknown", error } = alert;
  const events = alert.new === 1 ? "event" : "events";
  const why = error === undefined ? "" : `: ${error}`;
  const ref = HOSTED.exec(projectUrl ?? "")?.[1];
  return [
    `Billing: ${alert.new} new failed ${events} with ${error_code}`,
    `Open: ${alert.open}, since ${time(alert.first_failed_at)}.`,
    `Newest: ${event_id} (${event_type}, provider ${provider})${why}`,
    `What to do: run select * from billing.open_failures; in the SQL editor, and look up ${error_code} in the receiver's docs/operate.md`,
    ...(ref === undefined
      ? []
      : [`SQL editor: https://supabase.com/dashboard/project/${ref}/sql/new`]),
  ].join("\n");
}

function missedText({ provider, missed, types }: EventsMissed): string {
  const counts = Object.entries(types).sort(([, a], [, b]) => b - a)
    .map(([type, count]) => `${count} ${type}`);
  const prefix = settingsPrefix(provider);
  return [
    `Billing: ${missed} of provider ${provider}'s events never arrived`,
    `A sweep has found and applied them: ${counts.join(", ")}`,
    `What to do: check that the provider's endpoint is enabled, has these types selected, and signs with the secret in ${prefix}SIGNING_SECRET`,
  ].join("\n");
}

function sweepText(
  { provider, error = "unknown: the run was ended", last_success_at: last }:
    SweepFailed,
): string {
  const since = last === undefined ? "yet" : `since ${time(last)}`;
  return [
    `Billing: no sweep of provider ${provider}'s events has succeeded ${since}`,
    `Last error: ${error}`,
    "What to do: look up the error in the receiver's docs/sweep.md, or read the log of billing-worker",
  ].join("\n");
}

function time(text: string): string {
  return `${new Date(text).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Without escaping, an event type could mention a whole channel. */
function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
}
