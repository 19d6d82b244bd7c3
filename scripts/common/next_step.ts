import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";

/** Codes whose message names what is wrong, and so what to do. */
const OWN_MESSAGE =
  /^(?:event_invalid|provider_misconfigured|deployment_fault|internal_error)$/;

/**
 * Returns what to do next after an error code, in one sentence; undefined if the
 * code is unknown or the message says it.
 */
export function nextStep(code: string, provider: string): string | undefined {
  if (OWN_MESSAGE.test(code)) return undefined;
  return ERRORS[code as ErrorCode]?.todo.split(/(?<=\.) /)[0]
    ?.replace(settingsPrefix("a"), settingsPrefix(provider));
}
