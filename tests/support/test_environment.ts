/** A setting that scripts/test.ts gives to the tests. */
function setting(name: string): string {
  const value = Deno.env.get(name);
  if (value === undefined) {
    throw new Error(
      `Cannot run: ${name} is not set. Run the tests with: deno task test [files]`,
    );
  }
  return value;
}

/** The database of the stack under test, as role `postgres`. */
export function databaseUrl(): string {
  return setting("TEST_DATABASE_URL");
}
