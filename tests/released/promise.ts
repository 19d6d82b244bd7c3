/**
 * The list of what docs/stability.md promises, as the releases have kept it, and
 * what this version does.
 *
 * @module
 */
import { assert } from "@std/assert";
import manifest from "../../package.json" with { type: "json" };
import {
  type Items,
  readReleased,
  type Released,
  type ReleasedItem,
  releasedItems,
  withRelease,
  writeReleased,
} from "../../scripts/dev/release/released.ts";

const INTERFACE = "tests/released/interface.json";

/**
 * Fails if something is not as it was promised. With RELEASE=1 in the
 * environment, as `deno task release` sets it, it adds what is new to the list.
 *
 * @param kinds The first words of the items' names; the rest of the list is not
 * looked at.
 */
export async function checkPromise(
  kinds: readonly string[],
  items: Items,
): Promise<void> {
  assert(Object.keys(items).length > 0);
  assert(Object.keys(items).every((name) => isOf(kinds, name)));
  const released = await readReleased(INTERFACE);
  if (Deno.env.get("RELEASE") !== "1") {
    const faults = brokenPromises(released, { kinds, items });
    assertKept(faults);
    return;
  }
  const { version } = manifest;
  const { [version]: own = {}, ...others } = released;
  const faults = brokenPromises(others, { kinds, items });
  assertKept(faults);
  const kept = Object.entries(own).filter(([name]) => !isOf(kinds, name));
  const all = [...kept, ...Object.entries(items)];
  await writeReleased(
    INTERFACE,
    withPromises(others, { version, items: Object.fromEntries(all.sort()) }),
  );
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

function assertKept(faults: readonly string[]): void {
  const advice =
    `Users depend on it. Restore it, or keep it beside what is new. Without it, the next version is ${
      majorOf(manifest.version) + 1
    }.0.0: docs/stability.md.`;
  assert(faults.length === 0, [...faults, advice].join("\n"));
}

/** Returns each promise of this major version that is broken. */
export function brokenPromises(
  released: Released,
  { kinds, items, version = manifest.version }: {
    kinds: readonly string[];
    items: Items;
    version?: string;
  },
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
