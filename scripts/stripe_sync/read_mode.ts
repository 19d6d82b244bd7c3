import { UsageError } from "../common/cli.ts";
import { oneOf } from "../common/option_values.ts";

const MODES = ["test", "live"] as const;

/** Whether payments are real. */
export type Mode = typeof MODES[number];

/**
 * Returns the mode of a Stripe key. Unless a test key meets a local project,
 * `--mode` has to confirm it: nobody notices at once that the tables of one mode
 * contain data of the other.
 *
 * @param options.confirmed `--mode`, if it was given.
 * @param options.isHere Whether the project is on this machine.
 * @throws {UsageError}
 */
export function readMode(
  apiKey: string,
  { confirmed, isHere }: { confirmed: string | undefined; isHere: boolean },
): Mode {
  const ofKey = /^[sr]k_(test|live)_\S+$/.exec(apiKey)?.[1];
  if (ofKey === undefined) {
    throw new UsageError(
      apiKey === ""
        ? "STRIPE_API_KEY is not set. Copy a key from Stripe's dashboard (Developers, API keys)."
        : "STRIPE_API_KEY must begin with sk_test_, rk_test_, sk_live_ or rk_live_.",
    );
  }
  if (confirmed === undefined) {
    if (ofKey === "test" && isHere) return "test";
    throw new UsageError(
      `STRIPE_API_KEY is a ${ofKey} key, ${
        isHere ? "but the project is local" : "and the project is not local"
      }. If that is intended, add --mode ${ofKey}.`,
    );
  }
  const mode = oneOf(MODES, { value: confirmed, what: "mode" });
  if (mode === ofKey) return mode;
  throw new UsageError(
    `STRIPE_API_KEY is a ${ofKey} key, which does not match --mode ${mode}.`,
  );
}
