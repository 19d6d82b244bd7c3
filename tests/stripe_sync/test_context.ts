import { openStripeSource } from "../../scripts/stripe_sync/stripe_source.ts";
import { openTables } from "../../scripts/stripe_sync/tables.ts";
import type { Context } from "../../scripts/stripe_sync/context.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { setting } from "../support/test_environment.ts";
import { TEST_API_KEY } from "../support/run_script.ts";

/** Returns what the commands work with, for use in this process, without waits. */
export function testContext(
  stripeUrl: string,
  changes: Partial<Context> = {},
): Context {
  const wait = () => Promise.resolve();
  return {
    stripe: openStripeSource(
      { apiKey: TEST_API_KEY, mode: "test", stripeUrl },
      wait,
    ),
    tables: openTables({
      provider: "a",
      oncePerInvoice: false,
      database: createClient({
        supabaseUrl: setting("TEST_API_URL"),
        secretKey: LOCAL_SECRET_KEY,
      }, { fetch }),
    }, wait),
    provider: "a",
    accountFrom: undefined,
    unmappedSubscriptions: "fail",
    wait,
    onProgress: () => {},
    signal: new AbortController().signal,
    ...changes,
  };
}
