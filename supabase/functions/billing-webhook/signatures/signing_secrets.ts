import type { Environment } from "../../_shared/billing/environment.ts";
import {
  isLocalStack,
  isPublished,
} from "../../_shared/billing/settings/local_stack.ts";

/**
 * The secrets of all providers are longer. A shorter one is invented, or a part of a
 * secret that was split at a comma.
 */
const MIN_LENGTH = 16;

const COPY = "copy the secret from the provider's dashboard";

/** The usual placeholders of documentation and templates. */
const PLACEHOLDERS = [
  /\.\.\.|…/,
  /^<.*>$/,
  /(?:change|replace)[-_ ]?me|placeholder|your[-_ ]/i,
  // Shorter ones are below MIN_LENGTH, even with whsec_.
  /^(.)\1{9,}$/,
];

/**
 * Reads a provider's signing secrets: several, between commas, while one is rotated.
 *
 * @throws {Error} If one is missing or unsafe; names the variable, never the value.
 */
export function readSigningSecrets(env: Environment, name: string): string[] {
  const value = env[name] ?? "";
  if (value.trim() === "") {
    throw new Error(`${name} is not set: ${COPY}`);
  }
  const secrets = value.split(",");
  for (const secret of secrets) {
    const fault = faultOf(secret, env);
    if (fault !== undefined) throw new Error(`${name} ${fault}`);
  }
  return secrets;
}

function faultOf(secret: string, env: Environment): string | undefined {
  // A secret of any scheme may have the prefix, so a placeholder may follow it.
  const body = secret.replace(/^whsec_/, "");
  if (body === "") {
    return `contains an empty secret: remove the extra comma, or ${COPY}`;
  }
  if (secret !== secret.trim()) {
    return "has white space before or after a secret: remove it";
  }
  if (PLACEHOLDERS.some((placeholder) => placeholder.test(body))) {
    return `contains a placeholder: ${COPY}`;
  }
  if (secret.length < MIN_LENGTH) {
    return `contains a secret of fewer than ${MIN_LENGTH} characters: copy the whole secret (a comma separates two secrets)`;
  }
  if (isPublished(secret) && !isLocalStack(env)) {
    return `contains the local stack's secret, which is public, but this is not a local stack: ${COPY}`;
  }
  return undefined;
}
