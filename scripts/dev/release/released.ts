/**
 * Lists of what each release has brought: a file per list, below tests/released.
 *
 * @module
 */
import { resolve } from "node:path";
import { REPOSITORY } from "../../common/how_started.ts";

/** By version of the receiver: what it was the first to have. */
export type Released = Readonly<Record<string, Items>>;

/** What is kept of each item, by the item's name. */
export type Items = Readonly<Record<string, string>>;

/** An item of a release. */
export interface ReleasedItem {
  readonly name: string;
  readonly value: string;
  /** The version that it was released with. */
  readonly version: string;
}

/** Reads a list; an empty one if there is none yet. */
export async function readReleased(path: string): Promise<Released> {
  try {
    return JSON.parse(await Deno.readTextFile(resolve(REPOSITORY, path)));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return {};
    throw error;
  }
}

/** Writes a list. */
export async function writeReleased(
  path: string,
  released: Released,
): Promise<void> {
  const text = `${JSON.stringify(released, null, 2)}\n`;
  await Deno.writeTextFile(resolve(REPOSITORY, path), text);
}

/** Returns what the releases have brought, the oldest first. */
export function releasedItems(released: Released): ReleasedItem[] {
  return Object.entries(released).flatMap(([version, items]) =>
    Object.entries(items).map(([name, value]) => ({ name, value, version }))
  );
}

/**
 * Returns the list with a release: it has what no other version has. Until it is
 * published, it can be made anew.
 */
export function withRelease(
  released: Released,
  { version, items }: { version: string; items: Items },
): Released {
  const others = Object.fromEntries(
    Object.entries(released).filter(([other]) => other !== version),
  );
  const known = new Set(releasedItems(others).map(({ name }) => name));
  const added = Object.entries(items).filter(([name]) => !known.has(name));
  return { ...others, [version]: Object.fromEntries(added) };
}
