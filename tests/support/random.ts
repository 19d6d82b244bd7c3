import fc from "fast-check";

/**
 * Checks a property with a fresh seed, which is printed so that `PROPERTY_SEED` can
 * repeat the run.
 */
export async function checkProperty<T>(
  property: fc.IAsyncProperty<T>,
  options: fc.Parameters<T>,
): Promise<void> {
  const given = Deno.env.get("PROPERTY_SEED");
  const seed = given === undefined
    ? crypto.getRandomValues(new Int32Array(1))[0]!
    : Number(given);
  console.log(`seed ${seed}`);
  await fc.assert(property, { seed, ...options });
}

/** Returns how many cases to try: `FUZZ_CASES`, or what the gate can afford. */
export function caseCount(standard: number): number {
  return Number(Deno.env.get("FUZZ_CASES") ?? standard);
}

/** Returns numbers from 0 up to 1 that a seed determines (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item);
}
