/**
 * The list of what docs/stability.md promises, as the releases have kept it, and
 * what this version does.
 *
 * @module
 */
import { assert } from "@std/assert";
import type { Environment } from "../../scripts/common/environment.ts";
import manifest from "../../package.json" with { type: "json" };
import { PROMISES } from "../../scripts/dev/release/promises.ts";
import {
  type Items,
  readReleased,
  type Released,
  type ReleasedItem,
  releasedItems,
  withRelease,
  writeReleased,
} from "../../scripts/dev/release/released.ts";

/** A release that is made: `deno task release` sets it in the environment. */
interface Release {
  readonly version: string;
  /** A copy of the list, to which the tests add what is new. */
  readonly list: string;
}

/**
 * Fails if something is not as it was promised. For a release, it adds what is
 * new to a copy of the list.
 *
 * @param kinds The first words of the items' names; the rest of the list is not
 * looked at.
 */
export async function checkPromise(
  kinds: readonly string[],
  items: Items,
  release = releaseIn(Deno.env.toObject()),
): Promise<void> {
  assert(Object.keys(items).length > 0);
  assert(Object.keys(items).every((name) => isOf(kinds, name)));
  if (release === undefined) {
    const released = await readReleased(PROMISES);
    assertKept(released, { kinds, items, version: manifest.version });
    return;
  }
  const { version, list } = release;
  const { [version]: own = {}, ...others } = await readReleased(list);
  assertKept(others, { kinds, items, version });
  const kept = Object.entries(own).filter(([name]) => !isOf(kinds, name));
  const all = [...kept, ...Object.entries(items)];
  await writeReleased(
    list,
    withPromises(others, { version, items: Object.fromEntries(all.sort()) }),
  );
}

function releaseIn(env: Environment): Release | undefined {
  const { RELEASE_VERSION: version, RELEASE_LIST: list } = env;
  return version && list ? { version, list } : undefined;
}

/** Returns the list with a release: it has what is new in its major version. */
export function withPromises(
  released: Released,
  release: { version: string; items: Items },
): Released {
  const isEarlier = ([version]: [string, unknown]) =>
    majorOf(version) !== majorOf(release.version);
  const versions = Object.entries(released);
  const earlier = versions.filter(isEarlier);
  const own = versions.filter((version) => !isEarlier(version));
  return {
    ...Object.fromEntries(earlier),
    ...withRelease(Object.fromEntries(own), release),
  };
}

function assertKept(released: Released, compared: Compared): void {
  const faults = brokenPromises(released, compared);
  const advice =
    `Users depend on it. Restore it, or keep it beside what is new. Without it, the next version is ${
      majorOf(compared.version) + 1
    }.0.0: docs/stability.md.`;
  assert(faults.length === 0, [...faults, advice].join("\n"));
}

/** What a version does, to compare. */
interface Compared {
  readonly kinds: readonly string[];
  readonly items: Items;
  readonly version: string;
}

/** Returns each promise of this major version that is broken. */
export function brokenPromises(
  released: Released,
  { kinds, items, version }: Compared,
): string[] {
  return releasedItems(released)
    .filter((item) => majorOf(item.version) === majorOf(version))
    .filter(({ name, value }) => isOf(kinds, name) && items[name] !== value)
    .map((item) => sentence(item, items[item.name]));
}

function sentence(
  { name, value, version }: ReleasedItem,
  now: string | undefined,
): string {
  const change = now === undefined ? "is gone" : `is "${now}" now`;
  return `"${name}" was promised with ${version} as "${value}", and ${change}.`;
}

function isOf(kinds: readonly string[], name: string): boolean {
  return kinds.some((kind) => name.startsWith(`${kind} `));
}

function majorOf(version: string): number {
  return parseInt(version);
}
