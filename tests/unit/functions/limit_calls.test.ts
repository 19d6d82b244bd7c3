import { assertEquals } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { limitCalls } from "../../../supabase/functions/billing-webhook/queues/limit_calls.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

Deno.test("limitCalls() limits the calls under way, and how many wait", async () => {
  using timers = useFakeTimers();
  type Call = PromiseWithResolvers<string | DeliveryError>;
  const calls = new Map<string, Call>();
  const log: string[] = [];
  const handIn = limitCalls<string, string>((item) => {
    log.push(`[${item}]`);
    calls.set(item, Promise.withResolvers());
    return calls.get(item)!.promise;
  }, { calls: 2, maxWaiting: 3, maxWaitMs: 5_000 });

  const hand = async (...items: string[]) => {
    for (const item of items) {
      handIn(item).catch(({ code }) => `!${code}`)
        .then((result) => log.push(`${item}${result}`));
    }
    await settle();
  };

  const end = async (item: string, result: string | DeliveryError) => {
    calls.get(item)!.resolve(result);
    await settle();
  };

  await hand("1", "2", "3", "4", "5", "6");
  await end("2", "ok");
  await end("1", new DeliveryError("record_locked", "No."));
  await timers.pass(4_999);
  await hand("7");
  await timers.pass(1);
  calls.get("3")!.reject(new DeliveryError("database_unavailable", "No."));
  await settle();
  await end("4", "ok");
  await end("7", "ok");
  await hand("8", "9", "10");

  assertEquals(
    log.join(" "),
    "[1] [2] 6!overloaded [3] 2ok [4] 1!record_locked 5!overloaded [7] 3!database_unavailable 4ok 7ok [8] [9]",
  );
  assertEquals(timers.pending(), 1);
});
