/**
 * The names of `@std/assert` that the tests use, on Node's own assertions.
 *
 * The npm registry is the only package source that a build may rely on, and
 * std is published on JSR. CONTRIBUTING.md says which line to change where JSR
 * can be reached.
 *
 * @module
 */
import nodeAssert from "node:assert/strict";

type Constructor<T> = new (...args: never[]) => T;

/** Passes when `condition` is truthy, and narrows it. */
export function assert(condition: unknown, message = ""): asserts condition {
  nodeAssert.ok(condition, message || undefined);
}

/** Passes when the two are deeply equal. */
export function assertEquals<T>(
  actual: T,
  expected: T,
  message?: string,
): void {
  nodeAssert.deepEqual(actual, expected, message);
}

/** Passes when the two are not deeply equal. */
export function assertNotEquals<T>(
  actual: T,
  expected: T,
  message?: string,
): void {
  nodeAssert.notDeepEqual(actual, expected, message);
}

/** Passes when `actual` contains `expected`. */
export function assertStringIncludes(
  actual: string,
  expected: string,
  message?: string,
): void {
  nodeAssert.ok(
    actual.includes(expected),
    message ??
      `Expected ${JSON.stringify(actual)} to include ${
        JSON.stringify(expected)
      }`,
  );
}

/** Passes when `actual` matches the pattern. */
export function assertMatch(
  actual: string,
  expected: RegExp,
  message?: string,
): void {
  nodeAssert.match(actual, expected, message);
}

/** Passes when `actual` does not match the pattern. */
export function assertNotMatch(
  actual: string,
  expected: RegExp,
  message?: string,
): void {
  nodeAssert.doesNotMatch(actual, expected, message);
}

/** Passes when `fn` throws; returns what it threw. */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  ErrorClass?: Constructor<E>,
  messageIncludes?: string,
): E {
  try {
    fn();
  } catch (error) {
    return expectedError(error, ErrorClass, messageIncludes);
  }
  throw new nodeAssert.AssertionError({
    message: "Expected function to throw.",
  });
}

/** Passes when the promise of `fn` rejects; resolves with the reason. */
export async function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  ErrorClass?: Constructor<E>,
  messageIncludes?: string,
): Promise<E> {
  try {
    await fn();
  } catch (error) {
    return expectedError(error, ErrorClass, messageIncludes);
  }
  throw new nodeAssert.AssertionError({
    message: "Expected function to reject.",
  });
}

function expectedError<E extends Error>(
  error: unknown,
  ErrorClass: Constructor<E> | undefined,
  messageIncludes: string | undefined,
): E {
  const Expected = ErrorClass ?? (Error as unknown as Constructor<E>);
  nodeAssert.ok(
    error instanceof Expected,
    `Expected ${Expected.name}, got ${error}`,
  );
  if (messageIncludes !== undefined) {
    assertStringIncludes(error.message, messageIncludes);
  }
  return error;
}
