import type { Dice } from "../support/random.ts";

/** What signature headers are made of, and what they are not. */
const CHARACTERS = [..."0123456789abcdefABCDEFtv=,. +/-_z\t\u00a0\u00e9"] as [
  string,
  ...string[],
];

type Change = (text: string, dice: Dice) => string;

const CHANGES: [Change, ...Change[]] = [
  // Another character somewhere, at the end, at the beginning.
  (text, dice) => replaced(text, dice.roll(text.length), dice),
  (text, dice) => replaced(text, text.length - 1 - dice.roll(4), dice),
  (text, dice) => replaced(text, dice.roll(4), dice),
  // One more or one less.
  (text, dice) => inserted(text, dice.roll(text.length + 1), dice),
  (text, dice) => inserted(text, text.length, dice),
  (text, dice) => cut(text, dice.roll(text.length), 1),
  (text) => text.slice(0, -1),
  (text) => text.slice(1),
  // A piece less, or twice.
  (text, dice) => cut(text, dice.roll(text.length), dice.roll(20)),
  (text, dice) => text.slice(0, dice.roll(text.length)),
  (text, dice) => {
    const at = dice.roll(text.length);
    return text.slice(0, at + dice.roll(80)) + text.slice(at);
  },
  (text) => text.toUpperCase(),
  (text) => `${text}, ${text}`,
  (text) => `${text},`,
  () => "",
];

/** Changes a text in one of many ways; rarely it stays as it is. */
export function mutateText(text: string, dice: Dice): string {
  return dice.pick(CHANGES)(text, dice);
}

function replaced(text: string, at: number, dice: Dice): string {
  return text.slice(0, Math.max(at, 0)) + dice.pick(CHARACTERS) +
    text.slice(at + 1);
}

function inserted(text: string, at: number, dice: Dice): string {
  return text.slice(0, at) + dice.pick(CHARACTERS) + text.slice(at);
}

function cut(text: string, at: number, length: number): string {
  return text.slice(0, at) + text.slice(at + length);
}
