/** The middle of several measurements. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? sorted[middle] ?? NaN
    : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2;
}

/** Median and range of several rounds of the same measurement. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** What several rounds come to. */
export function spread(values: readonly number[]): Spread {
  return {
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
  };
}
