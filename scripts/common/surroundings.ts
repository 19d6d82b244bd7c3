import type { Environment } from "./environment.ts";
import type { RunningStack } from "./running_stack.ts";

/** What the meaning of a command line depends on. */
export interface Surroundings {
  /** The command's environment. */
  readonly env: Environment;
  /** Receives warnings, for standard error. */
  readonly warn: (text: string) => void;
  /** The local stack, if one runs. It is used if no URL is given. */
  readonly local?: RunningStack | undefined;
}
