import { openStripeSource } from "../../scripts/stripe_sync/stripe_source.ts";
import type { CommandContext } from "../../scripts/stripe_sync/command_context.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { setting } from "../support/test_environment.ts";
import { TEST_API_KEY } from "../support/run_script.ts";

/** Returns what the commands work with, for use in this process, without waits. */
export async function testContext(stripeUrl: string): Promise<CommandContext> {
  const sleep = () => Promise.resolve();
  const tools = { sleep, onWait: () => {} };
  const database = createClient({
    supabaseUrl: setting("TEST_API_URL"),
    secretKey: (await localKeys()).secret,
  }, { fetch });
  return {
    stripe: openStripeSource(
      { apiKey: TEST_API_KEY, mode: "test", stripeUrl },
      tools,
    ),
    tables: { database, provider: "a", tools },
    signal: new AbortController().signal,
    sleep,
  };
}
