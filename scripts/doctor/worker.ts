/** The checks of the worker, and of the settings that it reports. */
import type { FormatName } from "../../supabase/functions/_shared/billing/events/formats.ts";
import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { settingsOf } from "../common/project_api.ts";
import type { ProviderName } from "../common/sign.ts";
import {
  answerTo,
  Failed,
  type Here,
  instructionsFor,
  Warned,
} from "./check.ts";

/** Why failures should be acknowledged to a provider that soon stops sending. */
const IMPATIENT: Partial<Record<FormatName, string>> = {
  polar: "Polar disables an endpoint after 10 failures in a row",
  "lemon-squeezy": "Lemon Squeezy sends an event 4 times in 2.5 minutes",
};

export async function refusesCalls(url: string, here: Here): Promise<string> {
  const { deploy, log, reach } = instructionsFor(url, "billing-worker");
  const init = { method: "POST" };
  const { status, headers } = await answerTo(url, init, here, reach);

  // @supabase/server names its refusals in this header. Supabase's gateway does
  // not, and it would also refuse the schedule's key.
  if (status === 401 && headers.has("x-supabase-server-error")) {
    return "refuses a call without a key with 401";
  }
  const faults: Record<number, string> = {
    401:
      `refused with 401 by Supabase's key check, before it reached the worker. Keep "verify_jwt = false" in supabase/config.toml, and ${deploy}`,
    404: `answered 404. If the project's URL is right, ${deploy}`,
  };
  const other = status >= 500
    ? `answered ${status}: the worker does not start. The first lines of its log name the setting (${log})`
    : `answered ${status} instead of 401 to a call without a key. If the project's URL is right, ${deploy}`;
  throw new Failed(faults[status] ?? other);
}

/** Returns the worker's settings. The key is that with which the schedule wakes it. */
export async function acceptsKey(url: string, key: string, here: Here) {
  const to = instructionsFor(url, "billing-worker");
  const init = { method: "POST", headers: { apikey: key } };
  // With this queue, the worker does nothing, and notes no run of the schedule.
  const { status, body } = await answerTo(`${url}?queue=none`, init, here);

  if (status === 200) return settingsOf({ status, body });
  const faults: Record<number, string> = {
    401: `refuses the secret key. ${to.secretKey}`,
    503:
      `answered 503: the database does not answer the worker. ${to.database}`,
  };
  throw new Failed(
    faults[status] ??
      `answered ${status}. Its log has the reason (${to.log}). If a database function is missing: ${to.migrate}`,
  );
}

export function isRead(
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
  if (why === undefined || isAcknowledged) {
    return `events are read as ${format}`;
  }
  throw new Warned(
    `${why}. supabase secrets set ${prefix}FAILURES=acknowledge: docs/providers.md`,
  );
}

export function areListed(
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
      }, so what it would do for new events is lost. Add its type to HANDLE_EVENT_TYPES ${set}, or drop the function`,
    );
  }

  if (faults.length > 0) throw new Failed(faults.join(". "));
  return "each type in HANDLE_EVENT_TYPES has its function";
}
