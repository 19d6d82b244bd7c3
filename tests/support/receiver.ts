import type { Environment } from "../../scripts/common/environment.ts";
import { type ServedFunction, serveFunction } from "./serve_function.ts";

/**
 * Starts a receiver on a free port, in a process of its own.
 *
 * @param options.env On top of what the platform gives and the local secrets.
 * @param options.unset Names of variables that are not set.
 */
export function startReceiver(
  { env = {}, unset = [] }: {
    env?: Environment;
    unset?: readonly string[];
  } = {},
): Promise<ServedFunction> {
  return serveFunction("billing-webhook", { env, unset });
}
