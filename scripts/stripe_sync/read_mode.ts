import { oneOf, UsageError } from "../common/checked.ts";

const MODES = ["test", "live"] as const;

/** Whether money is real. */
export type Mode = typeof MODES[number];

/**
 * Which mode is meant. What is not plain is not guessed: data of one mode in
 * the tables of the other is a mess that nobody notices at once.
 *
 * @param options.said `--mode`, where it was given.
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
        ? "STRIPE_API_KEY is not set: take one from Stripe's dashboard (Developers, API keys)."
        : "STRIPE_API_KEY tells no mode: it has to begin with sk_test_, rk_test_, sk_live_ or rk_live_.",
    );
  }
  if (said === undefined) {
    if (ofKey === "test" && isHere) return "test";
    throw new UsageError(
      `Is it meant? STRIPE_API_KEY is of ${ofKey} mode, and the project ${
        isHere ? "is on this machine" : "is not on this machine"
      }. If it is, say so: --mode ${ofKey}`,
    );
  }
  const mode = oneOf(MODES, { value: said, what: "mode" });
  if (mode === ofKey) return mode;
  throw new UsageError(
    `--mode ${mode} was said, but STRIPE_API_KEY is of ${ofKey} mode.`,
  );
}
