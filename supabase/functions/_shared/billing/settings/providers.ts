/**
 * The providers, and those of their settings that both functions and the commands read.
 * How a provider signs is in `billing-webhook/signatures/signature_providers.ts`.
 */
import { choice, type Environment } from "../environment.ts";
import { DeliveryError } from "../errors.ts";
import { FORMAT_NAMES, type FormatName } from "../events/formats.ts";
import type { ReadingSettings } from "../events/parse_event.ts";

/** Each with its default header and scheme; a format may have its own. */
export const PROVIDERS = [
  { name: "a", header: "provider-a-signature", scheme: "stripe" },
  { name: "b", header: "provider-b-signature", scheme: "hmac-sha256-hex" },
] as const;

export type SecretVariable = `PROVIDER_${Uppercase<
  typeof PROVIDERS[number]["name"]
>}_SIGNING_SECRET`;

export type ProviderSettings =
  & Omit<ReadingSettings, "format">
  & Readonly<{
    format: FormatName;
    /** Whether the webhook answers 200 to an event whose failure is stored. */
    acknowledges: boolean;
  }>;

/** Returns the prefix of a provider's settings, such as `PROVIDER_A_`. */
export function settingsPrefix(provider: string): string {
  return `PROVIDER_${provider.toUpperCase()}_`;
}

/** @throws {DeliveryError} `provider_misconfigured` if a setting is wrong; names it. */
export function readProviderSettings(
  env: Environment,
  provider: string,
): ProviderSettings {
  const word = <Word extends string>(setting: string, ...words: Word[]) =>
    readWord(env, provider, setting, words);
  return {
    format: readFormatName(env, provider),
    mode: word("MODE", "any", "live", "test"),
    connect: word("CONNECT", "ignore", "allow") === "allow",
    acknowledges: word("FAILURES", "reject", "acknowledge") === "acknowledge",
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

/** Returns a value by provider name, without the providers for which `read` throws. */
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
