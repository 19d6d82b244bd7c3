import { assertEquals, assertThrows } from "@std/assert";
import { parseAddArguments } from "../../../scripts/add/arguments.ts";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";

Deno.test("parseAddArguments() takes a folder, and asks by default", () => {
  assertEquals(parseAddArguments(["../my-app"]), {
    folder: "../my-app",
    mode: "ask",
    force: undefined,
    keep: undefined,
  });
});

for (
  const path of [
    "snippets/4_retry.sql",
    "supabase/snippets/4_retry.sql",
    "./supabase/snippets/4_retry.sql",
  ]
) {
  Deno.test(`parseAddArguments() takes ${path} as a path below supabase`, () => {
    const args = parseAddArguments([".", "--force", path, "--yes"]);
    assertEquals([args.mode, args.force], ["yes", "snippets/4_retry.sql"]);
  });
}

for (
  const args of [
    [],
    ["a", "b"],
    ["a", "--yes", "--dry-run"],
    ["a", "--check", "--keep", "x"],
    ["a", "--all"],
  ]
) {
  Deno.test(`parseAddArguments() refuses ${JSON.stringify(args)}`, () => {
    assertThrows(() => parseAddArguments(args), UsageError);
  });
}

Deno.test("the help of add fits 80 columns", () => {
  const { message } = assertThrows(
    () => parseAddArguments(["--help"]),
    HelpRequest,
  );
  assertEquals(
    message.split("\n").filter(({ length }) => length > 80),
    [],
  );
});
