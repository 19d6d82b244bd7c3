import type { Environment } from "../_shared/billing/config.ts";
import { isLocalStack, isPublished } from "./local_stack.ts";

/**
 * Every provider's secret is longer. What is shorter is a part of a secret, or
 * made up: a list that was cut in the wrong place leaves such parts.
 */
const MIN_LENGTH = 16;

/** What documentation and templates put where a secret belongs. */
const PLACEHOLDERS = [
  /\.\.\.|…/,
  /^<.*>$/,
  /(?:change|replace)[-_ ]?me|placeholder|your[-_ ]/i,
  /^(.)\1{15,}$/,
];

/**
 * Reads a provider's signing secrets: several are separated by commas while one
 * is being rotated, and each has to be good by itself.
 *
 * @throws {Error} Naming the variable and what is wrong with it, never its value.
 */
export function readSigningSecrets(env: Environment, name: string): string[] {
  const value = env[name] ?? "";
  if (value.trim() === "") {
    throw new Error(
      `${name} is not set: copy it from the provider's dashboard`,
    );
  }
  const secrets = value.split(",");
  for (const secret of secrets) {
    const fault = faultOf(secret, env);
    if (fault !== undefined) throw new Error(`${name} ${fault}`);
  }
  return secrets;
}

/** Whether two variables have a secret in common. */
export function shareSecret(
  env: Environment,
  [one, other]: readonly [string, string],
): boolean {
  const secrets = env[one]?.split(",") ?? [];
  return env[other]?.split(",").some((secret) => secrets.includes(secret)) ??
    false;
}

function faultOf(secret: string, env: Environment): string | undefined {
  // The prefix says what it is; it makes nothing harder to guess.
  const body = secret.replace(/^whsec_/, "");
  if (body === "") return "holds an empty secret";
  if (secret !== secret.trim()) {
    return "has white space at the ends of a secret";
  }
  if (PLACEHOLDERS.some((placeholder) => placeholder.test(body))) {
    return "holds a placeholder: copy the secret from the provider's dashboard";
  }
  if (body.length < MIN_LENGTH) {
    return `holds a secret of fewer than ${MIN_LENGTH} characters, whsec_ not counted: copy the whole of it; commas separate secrets`;
  }
  if (isPublished(secret) && !isLocalStack(env)) {
    return "holds the local stack's secret, which everybody knows, and this is not a local stack: copy the secret from the provider's dashboard";
  }
  return undefined;
}
