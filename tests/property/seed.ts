/**
 * The seed of a property: `PROPERTY_SEED` to replay a run, else a fresh one.
 * It is printed, so that every run can be replayed.
 */
export function freshSeed(): number {
  const given = Deno.env.get("PROPERTY_SEED");
  return given === undefined
    ? crypto.getRandomValues(new Int32Array(1))[0] ?? 0
    : Number(given);
}
