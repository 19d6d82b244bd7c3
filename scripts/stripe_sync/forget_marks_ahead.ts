import { callDatabase } from "../../supabase/functions/_shared/billing/database.ts";
import { patiently } from "./patiently.ts";
import type { Tables } from "./records.ts";

/** For one call, in milliseconds. */
const TIME_LIMIT = 10_000;

/**
 * Takes back the marks of a record that are ahead of the database's clock, so
 * that the correction that follows counts.
 *
 * @throws {DeliveryError} If the database fails for good.
 */
export async function forgetMarksAhead(
  subscription: string,
  { database, provider, tools }: Tables,
): Promise<void> {
  await patiently(
    () =>
      callDatabase((signal) =>
        database.rpc("forget_marks_ahead", {
          p_provider: provider,
          p_subscription_id: subscription,
        }).abortSignal(signal), { timeLimitMs: TIME_LIMIT }),
    tools,
  );
}
