/** How each provider signs: the scheme, the headers and the keys. */
import type { Environment } from "../../_shared/billing/environment.ts";
import type { ReadingSettings } from "../../_shared/billing/events/parse_event.ts";
import { FORMATS } from "../../_shared/billing/events/formats.ts";
import {
  PROVIDERS,
  readFormatName,
  readOfEach,
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

/** A fault is kept, so that the other provider works. */
export async function readProviders(
  env: Environment,
): Promise<readonly SignatureProvider[]> {
  return await Promise.all(
    PROVIDERS.map((defaults) => readProvider(env, defaults)),
  );
}

async function readProvider(
  env: Environment,
  defaults: typeof PROVIDERS[number],
): Promise<SignatureProvider> {
  const { name } = defaults;
  const prefix = settingsPrefix(name);

  const format = FORMATS[readOfEach(env, readFormatName)[name] ?? "stripe"];
  const schemeName = env[`${prefix}SIGNATURE_SCHEME`] ||
    (format.scheme ?? defaults.scheme);
  const scheme = SCHEMES.get(schemeName) ?? stripeScheme;

  const defaultHeaders = [
    SCHEMES.get(schemeName)?.defaultHeader ?? format.header ?? defaults.header,
  ];
  const isTaken = PROVIDERS.some(({ name }) =>
    configuredHeader(name, env) === STRIPE_HEADER
  );
  if (scheme === stripeScheme && !isTaken) defaultHeaders.push(STRIPE_HEADER);
  const header = configuredHeader(name, env);
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
    if (header !== undefined && !isHeader) {
      throw new Error(
        `${prefix}SIGNATURE_HEADER must be the name of an HTTP header, such as stripe-signature`,
      );
    }
    if (
      scheme.hasHeaderPrefix && !withoutKeys.headers[0]!.endsWith("-signature")
    ) {
      throw new Error(
        `${prefix}SIGNATURE_HEADER must end with -signature: the headers with the id and the time have the same prefix`,
      );
    }
    return {
      ...withoutKeys,
      reading: { ...reading, format },
      acknowledges,
      keys: await readKeys(env, name, scheme),
    };
  } catch (error) {
    return { ...withoutKeys, fault: (error as Error).message };
  }
}

function configuredHeader(
  provider: string,
  env: Environment,
): string | undefined {
  return env[`${settingsPrefix(provider)}SIGNATURE_HEADER`]?.toLowerCase() ||
    undefined;
}

async function readKeys(
  env: Environment,
  provider: string,
  scheme: SignatureScheme,
): Promise<CryptoKey[]> {
  const variable = secretVariable(provider);
  const secrets = readSigningSecrets(env, variable);
  let keys: Uint8Array<ArrayBuffer>[];
  try {
    keys = secrets.flatMap((secret) => scheme.keysOf(secret));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `${variable} does not fit the signature scheme: ${message}`,
    );
  }

  // Each could sign as the other.
  const other = PROVIDERS.map(({ name }) => secretVariable(name))
    .filter((other) => other !== variable)
    .find((other) =>
      env[other]?.split(",").some((secret) => secrets.includes(secret))
    );
  if (other !== undefined) {
    throw new Error(
      `${variable} and ${other} share a secret: give each provider its own`,
    );
  }

  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return await Promise.all(
    keys.map((bytes) =>
      crypto.subtle.importKey("raw", bytes, algorithm, false, ["verify"])
    ),
  );
}

function secretVariable(provider: string): string {
  return `${settingsPrefix(provider)}SIGNING_SECRET`;
}
