import type { LedgerSize } from "./ledger_size.ts";
import type { SoakSlice } from "./soak.ts";
import type { Spread } from "./statistics.ts";
import type { Throughput } from "./throughput_results.ts";

/** What one run measured. */
export interface Measured {
  readonly verification: Record<string, Spread>;
  /** By version of Deno. */
  readonly coldStart: Record<string, Record<string, Spread>>;
  readonly throughput: Throughput;
  readonly soak: readonly SoakSlice[];
  readonly ledger: readonly LedgerSize[];
}
