import { seededRandom } from "../faults/random.ts";

/** Choices that a seed determines. */
export interface Dice {
  /** A whole number from 0 up to `sides` - 1. */
  roll(sides: number): number;
  /** One of them. */
  pick<T>(choices: readonly [T, ...T[]]): T;
  /** True once in so many times. */
  once(outOf: number): boolean;
}

/** Makes dice; the same seed gives the same choices. */
export function diceOf(seed: number): Dice {
  const random = seededRandom(seed);
  const roll = (sides: number) => Math.floor(random() * sides);
  return {
    roll,
    pick: (choices) => choices[roll(choices.length)] ?? choices[0],
    once: (outOf) => roll(outOf) === 0,
  };
}

/** How many cases to try: `FUZZ_CASES`, or what a run of the gate can afford. */
export function caseCount(standard: number): number {
  return Number(Deno.env.get("FUZZ_CASES") ?? standard);
}
