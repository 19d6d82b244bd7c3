import {
  type ErrorCode,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";

/** Codes whose error message already says what to do. */
const CLEAR_MESSAGE =
  /^(?:event_invalid|provider_misconfigured|deployment_fault|internal_error)$/;

/** Returns what to do about an error code, in one sentence. */
export function nextStep(code: string, provider: string): string | undefined {
  if (CLEAR_MESSAGE.test(code)) return undefined;
  return ERRORS[code as ErrorCode]?.todo.split(/(?<=\.) /)[0]
    ?.replace(settingsPrefix("a"), settingsPrefix(provider));
}
