import type { Environment } from "./environment.ts";
import {
  PROVIDERS,
  SCHEMES,
  settingsPrefix,
} from "../../supabase/functions/billing-webhook/providers.ts";
import { SIGNATURE_SCHEMES, type SignatureScheme } from "./sign.ts";

/** A provider's name in the receiver's table. */
export type ProviderName = typeof PROVIDERS[number]["name"];

/** The names of the providers on the command line. */
export const PROVIDER_NAMES = PROVIDERS.map(({ name }) => name);

/** How a provider signs. */
export interface ProviderSettings {
  readonly scheme: SignatureScheme;
  readonly header: string;
  /** The first of several: during a rotation, the new one. */
  readonly secret: string;
}

/**
 * Returns how a provider signs, from the settings of the functions: a receiver
 * with the same settings accepts the signature.
 *
 * @throws {Error} If a setting is missing or wrong; the message names it.
 */
export function providerSettings(
  env: Environment,
  provider: ProviderName,
): ProviderSettings {
  const prefix = settingsPrefix(provider);
  const defaults = PROVIDERS.find(({ name }) => name === provider)!;
  const scheme = env[`${prefix}SIGNATURE_SCHEME`] || defaults.scheme;
  if (!isScheme(scheme)) {
    throw new Error(
      `Cannot sign: ${prefix}SIGNATURE_SCHEME must be one of ${
        SIGNATURE_SCHEMES.join(", ")
      }.`,
    );
  }
  const secret = (env[`${prefix}SIGNING_SECRET`] ?? "").split(",")[0];
  if (!secret?.trim()) {
    throw new Error(
      `Cannot sign: ${prefix}SIGNING_SECRET is empty. Set it in the environment or in supabase/functions/.env; without such a line the local secret is used.`,
    );
  }
  const standardHeader = SCHEMES.get(scheme)?.defaultHeader ?? defaults.header;
  return {
    scheme,
    header: env[`${prefix}SIGNATURE_HEADER`] || standardHeader,
    secret,
  };
}

function isScheme(name: string): name is SignatureScheme {
  return (SIGNATURE_SCHEMES as readonly string[]).includes(name);
}
