/** Checks what the worker reports of a deployment's settings. */
import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import type { FormatName } from "../../supabase/functions/_shared/billing/events/formats.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { whyUnsafeToAcknowledge } from "../../supabase/functions/billing-webhook/check_acknowledged.ts";
import type { Settings } from "../../supabase/functions/billing-worker/index.ts";
import {
  check,
  Failed,
  type Findings,
  instructionsFor,
  type Project,
  RUN_MS,
  Skipped,
  Warned,
} from "./check.ts";

/** Why failures should be acknowledged to providers that soon stop sending. */
const IMPATIENT: Partial<Record<FormatName, string>> = {
  polar: "Polar disables an endpoint after 10 failures in a row",
  "lemon-squeezy": "Lemon Squeezy sends an event 4 times in 2.5 minutes",
};

/** Those whose provider's API lists events. */
const SWEPT_FORMATS: readonly FormatName[] = ["stripe", "paddle"];
/** As for the alert. */
const SWEEP_MS = 3 * 60 * 60 * 1000;

export async function* checkSettings(
  settings: Partial<Settings>,
  project: Project,
): Findings {
  const { url, provider, health, clock } = project;
  const to = instructionsFor(url, "billing-webhook billing-worker");

  const {
    acknowledging = [],
    hasAlerts = false,
    formats,
    sweeps,
    schemaVersion: expected,
    handledTypes: types = [],
    handledTypesFault: fault,
  } = settings;

  if (acknowledging.length > 0) {
    yield check("acknowledged", async () => {
      const danger = whyUnsafeToAcknowledge(
        (await health)?.last_scheduled_run_at,
        hasAlerts,
        clock(),
      );
      if (danger === undefined) return "failures are retried, and reported";
      throw new Failed(
        `failed events are answered 200, so providers do not send them again, but ${danger}`,
      );
    });
  }

  const format = formats?.[provider];
  if (formats && format !== "stripe") {
    const isAcknowledged = acknowledging.includes(provider);
    yield check("format", () => checkFormat(format, provider, isAcknowledged));
  }

  const keyFault = sweeps?.[provider];
  const listsEvents = format && SWEPT_FORMATS.includes(format);
  if (sweeps && format && (listsEvents || keyFault)) {
    yield check("sweep", async () => {
      const key = `${settingsPrefix(provider)}API_KEY`;
      if (keyFault === undefined) {
        throw new Skipped(
          `off: nothing finds events that never arrive. Set ${key} ${to.set}: docs/sweep.md`,
        );
      }
      if (keyFault !== null) {
        const text = `${keyFault}: docs/sweep.md`;
        throw listsEvents ? new Failed(text) : new Warned(text);
      }
      return await checkSweep(project);
    });
  }

  // If the API fails, another check says so.
  const known = await health.catch(() => undefined);
  const version = known?.schema_version;
  if (expected && version && expected !== version) {
    yield check("version", () => {
      throw new Failed(
        expected > version
          ? `the worker is newer than the database: ${to.migrate}`
          : `the worker is older than the database, and the webhook may be, too: ${to.deploy}`,
      );
    });
  }

  const functions = known?.handlers;
  if (functions && (fault || types.length + functions.length > 0)) {
    yield check("handlers", () => {
      if (!fault) return checkHandlers(types, functions, to.set);
      throw new Failed(
        `${fault}. Until you correct it ${to.set}, events of types that the receiver does not handle itself fail`,
      );
    });
  }
}

function checkFormat(
  format: FormatName | undefined,
  provider: string,
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
  { provider, health, read, clock }: Project,
): Promise<string> {
  const [row] = await read("billing_sweeps", { provider: `eq.${provider}` });
  const isPast = (time: string, ms: number) => clock() - Date.parse(time) > ms;
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

  const missed = (await health)?.missed_events ?? 0;
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
  const called = types.map(handlerName);
  const missing = types.filter((type) =>
    !functions.includes(handlerName(type))
  );
  const idle = functions.filter((name) => !called.includes(name));
  if (missing.length + idle.length === 0) {
    return "each type in HANDLE_EVENT_TYPES has its function";
  }

  const list = (names: readonly string[]) =>
    names.map((name) => `billing.${name}(text, jsonb)`).join(", ");
  const faults = [
    missing.length > 0 &&
    `events of ${missing.join(", ")} fail: service_role cannot call ${
      list(missing.map(handlerName))
    }. Create what is missing in a migration, or correct HANDLE_EVENT_TYPES ${set}`,
    idle.length > 0 &&
    `no listed type calls ${
      list(idle)
    }, so it never runs. Add its type to HANDLE_EVENT_TYPES ${set}, or drop the function`,
  ];
  throw new Failed(faults.filter(Boolean).join(". "));
}
