import { openProvider } from "../../scripts/stripe_sync/open_provider.ts";
import type { Workplace } from "../../scripts/stripe_sync/run_command.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { createDatabase } from "../../supabase/functions/_shared/billing/database.ts";
import { TEST_API_KEY } from "../support/run_script.ts";
import { setting } from "../support/test_environment.ts";

/** What the commands work with, in this process and without any waiting. */
export async function workplace(stripeUrl: string): Promise<Workplace> {
  const sleep = () => Promise.resolve();
  const tools = { sleep, onWait: () => {} };
  const database = createDatabase({
    supabaseUrl: setting("TEST_API_URL"),
    secretKey: (await localKeys()).secret,
  }, { fetch });
  return {
    provider: openProvider(
      { apiKey: TEST_API_KEY, mode: "test", stripeUrl },
      tools,
    ),
    tables: { database, provider: "a", tools },
    signal: new AbortController().signal,
    sleep,
  };
}
