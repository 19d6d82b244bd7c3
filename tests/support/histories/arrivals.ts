/** Returns the distinct orders in which items can arrive; some may be equal. */
export function* arrivals<T>(items: readonly T[]): Generator<T[]> {
  if (items.length === 0) yield [];
  for (const item of new Set(items)) {
    const rest = items.toSpliced(items.indexOf(item), 1);
    for (const arrival of arrivals(rest)) yield [item, ...arrival];
  }
}
