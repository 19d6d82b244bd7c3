/**
 * The names of `@std/assert` that the tests use, on Node's own assertions.
 *
 * The npm registry is the only package source that a build may rely on, and
 * std is published on JSR.
 */
import nodeAssert from "node:assert/strict";

type Constructor<T> = new (...args: never[]) => T;
type Same = <T>(actual: T, expected: T, message?: string) => void;
type Matches = (actual: string, expected: RegExp, message?: string) => void;

export function assert(condition: unknown, message = ""): asserts condition {
  nodeAssert.ok(condition, message || undefined);
}

export const assertEquals: Same = nodeAssert.deepEqual;

export const assertMatch: Matches = nodeAssert.match;

export function assertStringIncludes(
  actual: string,
  expected: string,
  message: string = `Expected "${actual}" to include "${expected}"`,
): void {
  nodeAssert.ok(actual.includes(expected), message);
}

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
