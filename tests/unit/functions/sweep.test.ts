import { assert, assertEquals } from "@std/assert";
import { readKeyedProviders } from "../../../supabase/functions/billing-worker/sweep/event_sources.ts";
import {
  clock,
  createEventApi,
  fetchFrom,
  HOUR,
} from "../../support/event_apis.ts";
import { wake } from "./worker_run.ts";

interface Settled {
  swept_until: string;
  rests_seconds: number;
}

Deno.test("sweep() goes on where its time was over, and begins an hour before the end", async () => {
  const api = createEventApi("stripe");
  api.maxPage = 1;
  for (let i = 1; i <= 40; i++) api.make("created", i * HOUR);
  // Each page takes a second.
  const readClock = () => clock.now + api.requests.length * 1000;
  const keyedProviders = readKeyedProviders({
    PROVIDER_A_API_KEY: api.key,
    PROVIDER_A_MODE: "test",
  }, { fetch: fetchFrom(api), clock: readClock });

  let state: object = { goes_on: true };
  const start = clock.now - 50 * HOUR;
  const not_before = new Date(start).toISOString();
  let expected = start;
  const rests: number[] = [];
  do {
    const { named } = await wake({
      queue: "sweep",
      due: { claim_sweep: [[{ ...state, not_before }]] },
      answers: { settle_sweep: () => Response.json(true) },
      worker: { keyedProviders, clock: readClock },
    });
    const [url] = api.requests.splice(0);
    const from = url!.searchParams.get("created[gte]");
    assertEquals(Number(from), Math.floor(expected / 1000));

    const settled = named(/settle/).at(-1)![1]["result"] as Settled;
    state = settled;
    const rest = settled.rests_seconds;
    rests.push(rest);
    expected = Date.parse(settled.swept_until) - (rest === 0 ? 0 : HOUR);
  } while (rests.at(-2) !== 3600 && rests.length < 20);
  assertEquals(rests.slice(-3), [0, 3600, 3600]);
  assert(rests.length > 3);
});
