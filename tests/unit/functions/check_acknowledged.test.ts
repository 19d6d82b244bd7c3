import { assert, assertEquals } from "@std/assert";
import type { Environment } from "../../../supabase/functions/_shared/billing/environment.ts";
import { checkAcknowledged } from "../../../supabase/functions/billing-webhook/check_acknowledged.ts";
import { fakeDatabase, refusal } from "./fixtures.ts";

const RAN_AT = "2026-11-03T10:00:00+00:00";
const ranAt = (last_scheduled_run_at: string | null) => () =>
  Response.json([{ last_scheduled_run_at }]);
const ALERTS = { ALERT_URL: "https://hooks.test/" };
const LACKS: [answer: () => Response, env: Environment, says?: string][] = [
  [ranAt(RAN_AT), ALERTS],
  [ranAt(RAN_AT), {}, "no alert channel"],
  [ranAt("2026-11-03T09:59:59.9+00:00"), ALERTS, "the schedule has not woken"],
  [ranAt(null), ALERTS, "the schedule has not woken"],
  [() => refusal("PGRST205"), ALERTS, "cannot be checked: Database call"],
];
Deno.test("checkAcknowledged() logs that failures may not be retried or seen", async () => {
  const fiveMinutesLater = Date.parse(RAN_AT) + 300_000;
  for (const [answer, env, says] of LACKS) {
    const errors: unknown[] = [];
    await checkAcknowledged({
      env,
      database: fakeDatabase(answer).database,
      clock: () => fiveMinutesLater,
      log: (level, _, fields) => errors.push(level, fields?.["error"]),
    });
    assertEquals(errors.length, says ? 2 : 0);
    if (says) assert(`${errors[1]}`.startsWith(says), `${errors[1]}`);
  }
});
