import { assertEquals } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { batch } from "../../../supabase/functions/billing-webhook/queues/batch.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

const LIMITS = { maxTogether: 3, maxWaiting: 5, maxWaitMs: 4_000 };

/**
 * What becomes of items: `[1,2]` are sent together, `1` has its result, and
 * `2!overloaded` has failed.
 *
 * @param script What happens. A number is an item that is handed in. The call
 * under way ends with the results (`ok`), with a failure of its first item
 * (`one`) or of all (`down`). `+1` is a millisecond that passes, and `timers`
 * notes how many there are: `1t`.
 */
async function batched(script: string, limits = LIMITS): Promise<string> {
  using timers = useFakeTimers();
  const log: string[] = [];
  let items: string[] = [];
  let call = Promise.withResolvers<(string | DeliveryError)[]>();
  const send = batch<string, string>((sent) => {
    log.push(`[${sent}]`);
    items = sent;
    call = Promise.withResolvers();
    return call.promise;
  }, limits);

  const unknown = new DeliveryError("subscription_unknown", "No.");
  const steps: Record<string, () => void> = {
    ok: () => call.resolve(items),
    one: () => call.resolve([unknown, ...items.slice(1)]),
    down: () => call.reject(new DeliveryError("database_unavailable", "No.")),
    timers: () => log.push(`${timers.pending()}t`),
  };

  for (const step of script.split(" ")) {
    if (step.startsWith("+")) {
      log.push(step);
      await timers.pass(Number(step));
    } else if (steps[step]) {
      steps[step]();
    } else {
      send(step).catch(({ code }) => `${step}!${code.split("_").pop()}`)
        .then((result) => log.push(result));
    }
    await settle();
  }
  return log.join(" ");
}

const AT_ONCE = { ...LIMITS, maxTogether: 50 };
const HISTORIES: [script: string, becomes: string, limits?: typeof LIMITS][] = [
  [
    // Half of five and one; of three and three; of three and two; after a pause.
    "1 2 3 4 5 ok 6 ok 7 8 9 ok ok 10 ok timers",
    "[1] [2,3,4] 1 [5,6] 2 3 4 [7,8,9] 5 6 7 8 9 [10] 10 0t",
    AT_ONCE,
  ],
  ["0 1 2 3 4 5 6 ok ok ok ok", "[0] 6!overloaded [1,2,3] 0 [4,5] 1 2 3 4 5"],
  [
    "1 2 3 4 5 ok one down 6 7 8 down down 9 ok",
    "[1] [2,3,4] 1 [5] 2!unknown 3 4 5!unavailable [6] [7,8] 6!unavailable 7!unavailable 8!unavailable [9] 9",
  ],
  [
    // Each wait ends by itself, and there is room for as many as gave up.
    "1 2 +1000 3 4 timers +2999 +1 +999 5 6 7 8 +1 ok timers +3998 +1 timers",
    "[1] +1000 1t +2999 +1 2!overloaded +999 8!overloaded +1 3!overloaded 4!overloaded [5,6] 1 1t +3998 +1 7!overloaded 0t",
  ],
];
Deno.test("batch() sends at once, and batches what arrives meanwhile, within limits", async () => {
  for (const [script, becomes, limits] of HISTORIES) {
    assertEquals(await batched(script, limits), becomes, script);
  }
});
