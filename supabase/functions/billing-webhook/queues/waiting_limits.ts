import { DeliveryError } from "../../_shared/billing/errors.ts";

export interface WaitingLimits {
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

export function overloaded(message: string): DeliveryError {
  return new DeliveryError("overloaded", `${message}: see docs/scaling.md`);
}
