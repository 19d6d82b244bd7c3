/** A row of the catalogue: its number, what comes in, and the test of it. */
export interface CatalogueRow<Stage> {
  readonly row: number;
  readonly input: string;
  /** @param stage What the test uses. */
  readonly check: (stage: Stage) => Promise<void>;
}
