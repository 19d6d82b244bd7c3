export type Environment = Readonly<Record<string, string | undefined>>;

export function cannotStart(fault: string): never {
  throw new Error(`Cannot start: ${fault}`);
}

/** Reads a variable that must be one of several words; the first is the default. */
export function choice<Word extends string>(
  env: Environment,
  name: string,
  words: readonly Word[],
  refuse: (fault: string) => never = cannotStart,
): Word {
  const text = env[name] || words[0];
  return words.find((word) => word === text) ??
    refuse(`${name} must be ${words.join(" or ")}, not "${text}".`);
}

export function wholeNumber(
  env: Environment,
  name: string,
  defaultValue: number,
): number {
  const text = env[name] || `${defaultValue}`;
  if (!/^[1-9]\d{0,9}$/.test(text)) {
    cannotStart(`${name} must be a whole number above 0, not "${text}".`);
  }
  return Number(text);
}
