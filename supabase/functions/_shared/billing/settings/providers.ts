/** The providers, and their settings, except for those of signatures. */
import { choice, type Environment } from "../environment.ts";
import { DeliveryError } from "../errors.ts";
import { FORMAT_NAMES, type FormatName } from "../events/formats.ts";

/** Each with its default header and scheme; a format may have its own. */
export const PROVIDERS = [
  { name: "a", header: "provider-a-signature", scheme: "stripe" },
  { name: "b", header: "provider-b-signature", scheme: "hmac-sha256-hex" },
] as const;

export type SecretVariable = `PROVIDER_${Uppercase<
  typeof PROVIDERS[number]["name"]
>}_SIGNING_SECRET`;

/** Returns the prefix of a provider's settings, such as `PROVIDER_A_`. */
export function settingsPrefix(provider: string): string {
  return `PROVIDER_${provider.toUpperCase()}_`;
}

/** @throws {DeliveryError} `provider_misconfigured` if a setting is wrong; names it. */
export function readProviderSettings(env: Environment, provider: string) {
  return {
    format: readFormatName(env, provider),
    mode: readWord(env, provider, "MODE", ["any", "live", "test"]),
    connect:
      readWord(env, provider, "CONNECT", ["ignore", "allow"]) === "allow",
    /** Whether the webhook answers 200 to an event whose failure is stored. */
    acknowledges:
      readWord(env, provider, "FAILURES", ["reject", "acknowledge"]) ===
        "acknowledge",
  };
}

export function readFormatName(env: Environment, provider: string): FormatName {
  return readWord(env, provider, "FORMAT", FORMAT_NAMES);
}

function readWord<Word extends string>(
  env: Environment,
  provider: string,
  setting: string,
  words: readonly Word[],
): Word {
  return choice(env, settingsPrefix(provider) + setting, words, (fault) => {
    throw new DeliveryError("provider_misconfigured", fault);
  });
}

/** Returns a value by provider name, but none for which `read` throws. */
export function readOfEach<T>(
  env: Environment,
  read: (env: Environment, provider: string) => T,
): Record<string, T> {
  return Object.fromEntries(PROVIDERS.flatMap(({ name }) => {
    try {
      return [[name, read(env, name)]];
    } catch {
      return [];
    }
  }));
}
