import { dodo } from "./dodo.ts";
import type { Format } from "./format.ts";
import { lemonSqueezy } from "./lemon_squeezy.ts";
import { paddle } from "./paddle.ts";
import { polar } from "./polar.ts";
import { stripe } from "./stripe.ts";

export const FORMATS = {
  stripe,
  paddle,
  polar,
  dodo,
  "lemon-squeezy": lemonSqueezy,
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof FORMATS;

export const FORMAT_NAMES = Object.keys(FORMATS) as FormatName[];
