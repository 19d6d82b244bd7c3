import { oneOf, UsageError } from "../common/checked.ts";

const MODES = ["test", "live"] as const;

/** A mode of Stripe. */
export type Mode = typeof MODES[number];

/**
 * Returns the mode to use. A live key or a remote project must be confirmed
 * with `--mode`: data of one mode in the tables of the other is easily
 * overlooked.
 *
 * @param options.said The value of `--mode`, if any.
 * @param options.isHere Whether the project is on this machine.
 * @throws {UsageError}
 */
export function readMode(
  apiKey: string,
  { said, isHere }: { said: string | undefined; isHere: boolean },
): Mode {
  const ofKey = /^[sr]k_(test|live)_\S+$/.exec(apiKey)?.[1];
  if (ofKey === undefined) {
    throw new UsageError(
      apiKey === ""
        ? "STRIPE_API_KEY is not set. Create a key in Stripe's dashboard (Developers, API keys)."
        : "STRIPE_API_KEY must begin with sk_test_, rk_test_, sk_live_ or rk_live_.",
    );
  }
  if (said === undefined) {
    if (ofKey === "test" && isHere) return "test";
    const place = isHere ? "local" : "not local";
    const conjunction = ofKey === "live" && !isHere ? "and" : "but";
    throw new UsageError(
      `STRIPE_API_KEY is a ${ofKey} key, ${conjunction} the project is ${place}. If that is intended, add --mode ${ofKey}.`,
    );
  }
  const mode = oneOf(MODES, { value: said, what: "mode" });
  if (mode === ofKey) return mode;
  throw new UsageError(
    `--mode ${mode} does not match STRIPE_API_KEY, which is a ${ofKey} key.`,
  );
}
