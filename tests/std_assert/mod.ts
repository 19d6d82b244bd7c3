/**
 * The names of `@std/assert` that the tests use, on Node's own assertions.
 *
 * The npm registry is the only package source that a build may rely on, and
 * std is published on JSR. CONTRIBUTING.md says which line to change where JSR
 * can be reached.
 */
import nodeAssert from "node:assert/strict";

type Constructor<T> = new (...args: never[]) => T;
type Same = <T>(actual: T, expected: T, message?: string) => void;
type Matches = (actual: string, expected: RegExp, message?: string) => void;

/** Passes when `condition` is truthy, and narrows it. */
export function assert(condition: unknown, message = ""): asserts condition {
  nodeAssert.ok(condition, message || undefined);
}

/** Passes when the two are deeply equal. */
export const assertEquals: Same = nodeAssert.deepEqual;

/** Passes when `actual` matches the pattern. */
export const assertMatch: Matches = nodeAssert.match;

/** Passes when `actual` does not match the pattern. */
export const assertNotMatch: Matches = nodeAssert.doesNotMatch;

/** Passes when `actual` contains `expected`. */
export function assertStringIncludes(
  actual: string,
  expected: string,
  message: string = `Expected "${actual}" to include "${expected}"`,
): void {
  nodeAssert.ok(actual.includes(expected), message);
}

/** Passes when `fn` throws; returns what it threw. */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  ...expected: [ErrorClass?: Constructor<E>, messageIncludes?: string]
): E {
  try {
    fn();
  } catch (error) {
    return expectedError(error, ...expected);
  }
  return nodeAssert.fail("Expected function to throw.");
}

/** Passes when the promise of `fn` rejects; resolves with the reason. */
export async function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  ...expected: [ErrorClass?: Constructor<E>, messageIncludes?: string]
): Promise<E> {
  try {
    await fn();
  } catch (error) {
    return expectedError(error, ...expected);
  }
  return nodeAssert.fail("Expected function to reject.");
}

function expectedError<E extends Error>(
  error: unknown,
  ErrorClass: Constructor<E> = Error as unknown as Constructor<E>,
  messageIncludes = "",
): E {
  const message = `Expected ${ErrorClass.name}, got ${error}`;
  nodeAssert.ok(error instanceof ErrorClass, message);
  assertStringIncludes(error.message, messageIncludes);
  return error;
}
