export function setting(name: TestSetting): string {
  const value = Deno.env.get(name);
  if (value === undefined) {
    throw new Error(
      `Cannot run: ${name} is not set. Run the tests with: deno task test [files]`,
    );
  }
  return value;
}

export type TestSetting =
  /** The database, as role `postgres`. */
  | "TEST_DATABASE_URL"
  /** Another one, migrated under the default privileges of older projects. */
  | "TEST_LEGACY_DATABASE_URL"
  /** The server's own share folder, which takes extensions. */
  | "TEST_PG_SHARE_DIR"
  /** The local gateway, which stands for the project's URL. */
  | "TEST_API_URL"
  /** What a test copies that starts a stack of its own. */
  | "TEST_STACK_TEMPLATE"
  | "TEST_FUNCTIONS_DENO";
