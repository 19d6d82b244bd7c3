import { choice, type Environment, type EventMode } from "../config.ts";
import { DeliveryError } from "../errors.ts";
import { dodo } from "./dodo.ts";
import type { Format } from "./format.ts";
import { lemonSqueezy } from "./lemon_squeezy.ts";
import { paddle } from "./paddle.ts";
import { polar } from "./polar.ts";
import { stripe } from "./stripe.ts";

/** The formats, by their names in the settings. */
export const FORMATS = {
  stripe,
  paddle,
  polar,
  dodo,
  "lemon-squeezy": lemonSqueezy,
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof FORMATS;

export const FORMAT_NAMES = Object.keys(FORMATS) as FormatName[];

/** How a provider's events are read. */
export interface Reading {
  readonly format: Format;
  readonly mode: EventMode;
  /** Whether events of connected accounts have an effect. */
  readonly connect: boolean;
}

/** Reads how a provider's events are read; throws as {@linkcode readFormatName}. */
export function readReading(env: Environment, provider: string): Reading {
  const word = <Word extends string>(name: string, ...words: Word[]) =>
    choice(env, `PROVIDER_${provider.toUpperCase()}_${name}`, words, refuse);
  return {
    format: FORMATS[readFormatName(env, provider)],
    mode: word("MODE", "any", "live", "test"),
    connect: word("CONNECT", "ignore", "allow") === "allow",
  };
}

/** Returns the format of each provider whose setting is right, by its name. */
export function readFormats(env: Environment): Record<string, FormatName> {
  return Object.fromEntries(["a", "b"].flatMap((provider) => {
    try {
      return [[provider, readFormatName(env, provider)]];
    } catch {
      return [];
    }
  }));
}

/**
 * Returns the name of a provider's format by its setting; `stripe` if it is not set.
 *
 * @throws {DeliveryError} `provider_misconfigured` if the setting names none of them.
 */
export function readFormatName(env: Environment, provider: string): FormatName {
  const setting = `PROVIDER_${provider.toUpperCase()}_FORMAT`;
  return choice(env, setting, FORMAT_NAMES, refuse);
}

function refuse(fault: string): never {
  throw new DeliveryError("provider_misconfigured", fault);
}
