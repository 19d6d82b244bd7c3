/** How each provider signs: the scheme, the headers and the keys. */
import type { Environment } from "../../_shared/billing/environment.ts";
import type { Format } from "../../_shared/billing/events/format.ts";
import type { ReadingSettings } from "../../_shared/billing/events/parse_event.ts";
import { FORMATS } from "../../_shared/billing/events/formats.ts";
import {
  PROVIDERS,
  readFormatName,
  readProviderSettings,
  settingsPrefix,
} from "../../_shared/billing/settings/providers.ts";
import {
  hmacSha256Hex,
  paddleScheme,
  polarScheme,
  type SignatureScheme,
  standardWebhooks,
  stripeScheme,
} from "./schemes.ts";
import { readSigningSecrets } from "./signing_secrets.ts";

export const SCHEMES: ReadonlyMap<string, SignatureScheme> = new Map([
  ["stripe", stripeScheme],
  ["hmac-sha256-hex", hmacSha256Hex],
  ["standard-webhooks", standardWebhooks],
  ["paddle", paddleScheme],
  ["polar", polarScheme],
]);

/** RFC 9110, section 5.6.2, in lower case. */
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;

/** Stripe's own header, which needs no setting. */
const STRIPE_HEADER = "stripe-signature";

/** A provider as configured. Without keys, all its deliveries are refused. */
export type SignatureProvider = Readonly<{
  name: string;
  /** A delivery has its signature in one of them. Providers may share a header. */
  headers: readonly string[];
  scheme: SignatureScheme;
  reading: ReadingSettings;
  acknowledges: boolean;
  /** One per secret; not extractable, for verification only. */
  keys: readonly CryptoKey[];
  /** Why its configuration is unusable, for operators. */
  fault?: string;
}>;

/** Reads each provider's settings. A fault is kept, so that the other provider works. */
export async function readProviders(
  env: Environment,
): Promise<readonly SignatureProvider[]> {
  const providers = await Promise.all(
    PROVIDERS.map((defaults) => readProvider(env, defaults)),
  );
  return providers.map((provider) => {
    const fault = provider.fault ?? sharedSecret(provider, env);
    return fault === undefined ? provider : { ...provider, keys: [], fault };
  });
}

/** Returns the fault if two providers share a secret: each could sign as the other. */
function sharedSecret(
  { name }: SignatureProvider,
  env: Environment,
): string | undefined {
  const secretsOf = (variable: string) => env[variable]?.split(",") ?? [];
  const variable = secretVariable(name);
  const secrets = secretsOf(variable);
  const other = PROVIDERS.map((provider) => secretVariable(provider.name))
    .find((other) =>
      other !== variable &&
      secretsOf(other).some((secret) => secrets.includes(secret))
    );
  return other &&
    `${variable} and ${other} share a secret: give each provider its own`;
}

function secretVariable(provider: string): string {
  return `${settingsPrefix(provider)}SIGNING_SECRET`;
}

async function readProvider(
  env: Environment,
  defaults: typeof PROVIDERS[number],
): Promise<SignatureProvider> {
  const { name } = defaults;
  const prefix = settingsPrefix(name);

  const format = readFormat(env, name);
  const schemeName = env[`${prefix}SIGNATURE_SCHEME`] ||
    (format.scheme ?? defaults.scheme);
  const scheme = SCHEMES.get(schemeName) ?? stripeScheme;

  const defaultHeaders = [
    SCHEMES.get(schemeName)?.defaultHeader ?? format.header ?? defaults.header,
  ];
  const isTaken = PROVIDERS.some(({ name }) =>
    configuredHeader(settingsPrefix(name), env) === STRIPE_HEADER
  );
  if (scheme === stripeScheme && !isTaken) defaultHeaders.push(STRIPE_HEADER);
  const header = configuredHeader(prefix, env);
  const isHeader = header !== undefined && HEADER_NAME.test(header);

  const withoutKeys: SignatureProvider = {
    name,
    headers: isHeader ? [header] : defaultHeaders,
    scheme,
    reading: { format, mode: "any", connect: false },
    acknowledges: false,
    keys: [],
  };
  try {
    const { acknowledges, ...reading } = readProviderSettings(env, name);
    if (!SCHEMES.has(schemeName)) {
      const names = [...SCHEMES.keys()].join(", ");
      throw new Error(`${prefix}SIGNATURE_SCHEME must be one of ${names}`);
    }
    if (header !== undefined) checkHeader(header, { prefix, scheme });

    const variable = secretVariable(name);
    const secrets = readSigningSecrets(env, variable);
    const keys = secrets.flatMap((secret) => keysOf(secret, variable, scheme));
    return {
      ...withoutKeys,
      reading: { ...reading, format },
      acknowledges,
      keys: await Promise.all(keys.map(importKey)),
    };
  } catch (error) {
    return { ...withoutKeys, fault: (error as Error).message };
  }
}

function readFormat(env: Environment, provider: string): Format {
  try {
    return FORMATS[readFormatName(env, provider)];
  } catch {
    return FORMATS.stripe;
  }
}

function configuredHeader(
  prefix: string,
  env: Environment,
): string | undefined {
  return env[`${prefix}SIGNATURE_HEADER`]?.toLowerCase() || undefined;
}

function checkHeader(
  header: string,
  { prefix, scheme }: { prefix: string; scheme: SignatureScheme },
): void {
  const name = `${prefix}SIGNATURE_HEADER`;
  if (!HEADER_NAME.test(header)) {
    throw new Error(
      `${name} must be the name of an HTTP header, such as stripe-signature`,
    );
  }
  if (scheme.hasHeaderPrefix && !header.endsWith("-signature")) {
    throw new Error(
      `${name} must end with -signature: the headers with the id and the time have the same prefix`,
    );
  }
}

function keysOf(secret: string, variable: string, scheme: SignatureScheme) {
  try {
    return scheme.keysOf(secret);
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `${variable} does not fit the signature scheme: ${message}`,
    );
  }
}

async function importKey(bytes: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return await crypto.subtle.importKey("raw", bytes, algorithm, false, [
    "verify",
  ]);
}
