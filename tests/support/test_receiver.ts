import { applyEvents } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { gather } from "../../supabase/functions/billing-webhook/gather.ts";
import type { Receiver } from "../../supabase/functions/billing-webhook/handle_webhook.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/providers.ts";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { setting } from "./test_environment.ts";

/** Returns a receiver in this process, with the local secrets and no log. */
export async function testReceiver(
  { fetch = globalThis.fetch, supabaseUrl = setting("TEST_API_URL") }: {
    fetch?: typeof globalThis.fetch;
    supabaseUrl?: string;
  } = {},
): Promise<Receiver> {
  const config = {
    supabaseUrl,
    secretKey: (await localKeys()).secret,
    toleranceSeconds: 300,
    maxBodyBytes: 1_048_576,
  };
  const database = createClient(config, { fetch });
  return {
    providers: await readProviders({
      ...LOCAL_SIGNING_SECRETS,
      SUPABASE_SECRET_KEYS: JSON.stringify({ default: config.secretKey }),
    }),
    toleranceSeconds: config.toleranceSeconds,
    body: { maxBytes: config.maxBodyBytes, timeLimitMs: 10_000 },
    apply: gather(
      (events) => applyEvents(events, { database }),
      { maxTogether: 50, maxWaiting: 1_000, maxWaitMs: 3_000 },
    ),
    database,
    unmappedSubscriptions: "fail",
    log: () => {},
    wakeWorker: () => {},
    clock: Date.now,
  };
}
