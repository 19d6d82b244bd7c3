/**
 * Values from the command line. Each function throws a UsageError where the
 * value is not what it has to be.
 *
 * @module
 */

/** The command was typed wrong; the message says how to type it. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** The choice that the value is. */
export function oneOf<T extends string>(
  choices: readonly T[],
  { value, what }: { value: string | undefined; what: string },
): T {
  const choice = choices.find((choice) => choice === value);
  if (choice === undefined) {
    throw new UsageError(
      `Unknown ${what} "${value}": one of ${choices.join(", ")}.`,
    );
  }
  return choice;
}

/** A number of whole seconds. */
export function checkedSeconds(text: string): number {
  if (!/^\d{1,12}$/.test(text)) {
    throw new UsageError(
      `--created takes Unix time in whole seconds, not "${text}".`,
    );
  }
  return Number(text);
}

/** An address that can be posted to. */
export function checkedUrl(text: string): string {
  if (!/^https?:$/.test(URL.parse(text)?.protocol ?? "")) {
    throw new UsageError(
      `--url takes an http or https address, not "${text}".`,
    );
  }
  return text;
}
