/**
 * The parser and an independent oracle agree on random bodies that are close to
 * real events.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { decodeBody } from "../../supabase/functions/_shared/billing/parse_event.ts";
import {
  ANSWERS,
  DeliveryError,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { caseCount, diceOf, freshSeed } from "../support/random.ts";
import { makeEventBody, makeRandomBody, VALUE_MARK } from "./event_case.ts";
import { judge, type Verdict } from "./oracle.ts";

const CASES = caseCount(10_000);
const NOW = 1_793_700_000;
/** The default of SIGNATURE_TOLERANCE_SECONDS. */
const TOLERANCE_SECONDS = 300;

Deno.test("parseEvent() accepts and refuses the same bodies as the oracle", () => {
  const seed = freshSeed();
  const counts: Record<Verdict, number> = {
    handled: 0,
    ignored: 0,
    invalid: 0,
    unreadable: 0,
  };
  for (let number = 0; number < CASES; number++) {
    const dice = diceOf(seed + number);
    const body = dice.once(10) ? makeRandomBody(dice) : makeEventBody({
      id: "evt_1",
      subscription: "sub_1",
      created: NOW,
    }, dice);
    const expected = judge(body, NOW);
    const text = new TextDecoder().decode(body);
    assertEquals(
      outcomeOf(body),
      expected,
      `Case ${number} of seed ${seed}: ${text}`,
    );
    counts[expected]++;
  }
  console.log(
    `${CASES} bodies, seed ${seed}: ${
      Object.entries(counts).map(([verdict, n]) => `${n} ${verdict}`)
        .join(", ")
    }`,
  );
  for (const count of Object.values(counts)) assert(count > CASES / 100);
});

function outcomeOf(body: Uint8Array): Verdict {
  try {
    const { handled } = parseEvent(decodeBody(body), {
      nowSeconds: NOW,
      toleranceSeconds: TOLERANCE_SECONDS,
    });
    return handled ? "handled" : "ignored";
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    assert(!error.message.includes(VALUE_MARK), "It repeats a value");
    return ANSWERS[error.code].status === 422 ? "invalid" : "unreadable";
  }
}
