/** Events of one hour, by outcome. */
export interface HourCount {
  /** In ISO 8601. */
  readonly hour: string;
  readonly applied: number;
  readonly stale: number;
  readonly failed: number;
}
