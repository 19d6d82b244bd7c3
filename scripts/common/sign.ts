/** Signs as the providers do, with Node's HMAC instead of the receiver's code. */
import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { SCHEMES } from "../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import {
  PROVIDERS,
  readFormatName,
  settingsPrefix,
} from "../../supabase/functions/_shared/billing/settings/providers.ts";
import type { Format } from "../../supabase/functions/_shared/billing/events/format.ts";
import type { Environment } from "./environment.ts";

export const PROVIDER_NAMES = PROVIDERS.map(({ name }) => name);
export type ProviderName = typeof PROVIDER_NAMES[number];

type ProviderSettings = ReturnType<typeof providerSettings>;

/** Returns how a provider signs, by the settings of the functions. */
export function providerSettings(
  env: Environment,
  provider: ProviderName,
  formatName: FormatName = readFormatName(env, provider),
) {
  const format: Format = FORMATS[formatName];
  const prefix = settingsPrefix(provider);
  const defaults = PROVIDERS.find(({ name }) => name === provider)!;
  const scheme = env[`${prefix}SIGNATURE_SCHEME`] ||
    (format.scheme ?? defaults.scheme);
  if (!SCHEMES.has(scheme)) {
    throw new Error(
      `Cannot sign: ${prefix}SIGNATURE_SCHEME must be one of ${
        [...SCHEMES.keys()].join(", ")
      }.`,
    );
  }

  // During a rotation there are several secrets; the first is the new one.
  const secret = env[`${prefix}SIGNING_SECRET`]?.split(",")[0];
  if (!secret?.trim()) {
    throw new Error(
      `Cannot sign: ${prefix}SIGNING_SECRET is empty. Set it in the environment or in supabase/functions/.env; without such a line the local secret is used.`,
    );
  }

  const header = env[`${prefix}SIGNATURE_HEADER`] ||
    (SCHEMES.get(scheme)?.defaultHeader ?? format.header ?? defaults.header);
  return { scheme, header, secret };
}

/** If the secret or the header does not fit the scheme, the receiver's log says so. */
export function signatureHeaders({
  scheme,
  header,
  secret,
  body,
  timestamp = Math.floor(Date.now() / 1000),
  id = `msg_${crypto.randomUUID()}`,
}: ProviderSettings & {
  readonly body: string | Uint8Array;
  /** Unix time in seconds, for the schemes that carry one. */
  readonly timestamp?: number;
  /** The message's ID in Standard Webhooks, by default a new one. */
  readonly id?: string;
}): Record<string, string> {
  switch (scheme) {
    case "stripe": {
      const signature = hmac(secret, `${timestamp}.`, body).digest("hex");
      return { [header]: `t=${timestamp},v1=${signature}` };
    }

    case "paddle": {
      const signature = hmac(secret, `${timestamp}:`, body).digest("hex");
      return { [header]: `ts=${timestamp};h1=${signature}` };
    }

    case "hmac-sha256-hex":
      return { [header]: hmac(secret, body).digest("hex") };

    default: { // standard-webhooks, polar
      const prefix = header.replace(/signature$/i, "");
      // In Polar's older secrets, the text itself is the key.
      const isText = scheme === "polar" && !BASE64_SECRET.test(secret);
      const key = isText
        ? secret
        : Buffer.from(secret.slice("whsec_".length), "base64");
      const signature = hmac(key, `${id}.${timestamp}.`, body).digest("base64");
      return {
        [`${prefix}id`]: id,
        [`${prefix}timestamp`]: String(timestamp),
        [header]: `v1,${signature}`,
      };
    }
  }
}

function hmac(key: string | Uint8Array, ...parts: (string | Uint8Array)[]) {
  const hmac = createHmac("sha256", key);
  for (const part of parts) hmac.update(part);
  return hmac;
}

const BASE64_SECRET =
  /^whsec_(?=.)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
