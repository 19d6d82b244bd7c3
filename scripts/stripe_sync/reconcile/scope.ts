import type { UnmappedChoice } from "../../../supabase/functions/_shared/billing/unmapped.ts";
import type { Workplace } from "../run_command.ts";

/** What is looked at, and how. */
export interface Scope extends Workplace {
  readonly accountFrom: string | undefined;
  readonly unmappedSubscriptions: UnmappedChoice;
  /** Told after each page of subscriptions, how many were compared. */
  readonly onPage: (compared: number) => void;
}
