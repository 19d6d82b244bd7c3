/**
 * Secrets of a provider: good ones, and common mistakes.
 *
 * @module
 */
import type { TestedScheme } from "../support/sign.ts";
import type { Dice } from "../support/random.ts";

const PLAIN = [
  "whsec_one_1234567890_of_a",
  "two-1234567890-of-a",
  "whsec_three_1234567890",
] as const;
const STANDARD = [
  "whsec_b25lIHNlY3JldCBvZiB0aGUgZnV6emVy",
  "whsec_dHdvIHNlY3JldCBvZiB0aGUgZnV6emVy",
  "whsec_dGhyZWUgc2VjcmV0cyBhbmQgbW9yZSEh",
] as const;

/**
 * What stands in the place of a secret by mistake, or with white space beside
 * it. A provider that has one of these is refused, whatever else it has.
 */
const FAULTY: [string, ...string[]] = [
  "",
  "whsec_",
  ` ${PLAIN[0]}`,
  `${PLAIN[0]}\n`,
  ` ${STANDARD[0]}`,
  "x",
  "whsec_...",
];

/** Places in the lists of secrets: one, or several while one is rotated. */
const CONFIGURED: [number[], ...number[][]] = [
  [0],
  [0],
  [1],
  [0, 1],
  [1, 0],
  [2, 0, 1],
];

/** What a provider is configured with. */
export function makeSecrets(scheme: TestedScheme, dice: Dice): string[] {
  const all = secretsOf(scheme);
  const secrets = dice.pick(CONFIGURED).map((place) => all[place] ?? "");
  if (!dice.once(16)) return secrets;
  const faulty = dice.pick(FAULTY);
  return dice.once(2) ? [faulty] : dice.pick([
    [faulty, ...secrets],
    [...secrets, faulty],
  ]);
}

/**
 * What a sender signs with: one of those that are configured, or seldom
 * another; it may have lost the white space at its ends.
 */
export function signingSecret(
  secrets: readonly string[],
  { scheme, dice }: { scheme: TestedScheme; dice: Dice },
): string {
  const all = secretsOf(scheme);
  const secret = dice.once(12)
    ? all[dice.roll(3)] ?? ""
    : dice.pick(secrets as [string, ...string[]]);
  return dice.once(2) ? secret : secret.trim();
}

/** Whether it stands in the place of a secret by mistake. */
export function isFaulty(secret: string): boolean {
  return FAULTY.includes(secret);
}

function secretsOf(scheme: TestedScheme): readonly string[] {
  return scheme === "standard-webhooks" ? STANDARD : PLAIN;
}
