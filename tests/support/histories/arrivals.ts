/**
 * Returns all orders in which items can arrive, each at least once.
 *
 * @param repetitions How many more deliveries than items there may be.
 */
export function* arrivals<T>(
  items: readonly T[],
  repetitions: number,
): Generator<T[]> {
  for (const copies of multisets(items, repetitions)) yield* orders(copies);
}

/** The items once each, and up to so many of them again. */
function* multisets<T>(
  items: readonly T[],
  repetitions: number,
  from = 0,
): Generator<Map<T, number>> {
  yield new Map(items.map((item) => [item, 1]));
  if (repetitions === 0) return;
  for (let i = from; i < items.length; i++) {
    const item = items[i] as T;
    for (const rest of multisets(items, repetitions - 1, i)) {
      rest.set(item, (rest.get(item) ?? 0) + 1);
      yield rest;
    }
  }
}

/** The distinct orders of a multiset. */
function* orders<T>(copies: Map<T, number>): Generator<T[]> {
  const left = [...copies].filter(([, count]) => count > 0);
  if (left.length === 0) yield [];
  for (const [item, count] of left) {
    const rest = new Map(copies).set(item, count - 1);
    for (const order of orders(rest)) yield [item, ...order];
  }
}
