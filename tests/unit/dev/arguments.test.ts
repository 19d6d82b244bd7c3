import { assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { parseTestArguments } from "../../../scripts/dev/test/arguments.ts";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const parse = (...args: string[]) => parseTestArguments(args, { root });

Deno.test("parseTestArguments() takes nothing for the whole gate", () => {
  assertEquals(parse(), { paths: [], filter: undefined });
});

Deno.test("parseTestArguments() takes files and folders of either kind, however written", () => {
  assertEquals(
    parse("tests/unit/", "./tests/pgtap.test.ts", "--filter", "x"),
    { paths: ["tests/unit", "tests/pgtap.test.ts"], filter: "x" },
  );
  assertEquals(
    parse(`${root}supabase/tests/privileges.test.sql`).paths,
    ["supabase/tests/privileges.test.sql"],
  );
});

Deno.test("parseTestArguments() knows --help", () => {
  for (const args of [["--help"], ["-h", "tests/unit"]]) {
    assertThrows(() => parse(...args), HelpRequest, "Runs the tests");
  }
});

for (
  const [args, message] of [
    [["tests/unti"], "tests/unti does not exist. Did you mean tests/unit?"],
    [
      ["tests/unit/functions/log.tset.ts"],
      "tests/unit/functions/log.tset.ts does not exist. Did you mean tests/unit/functions/log.test.ts?",
    ],
    [
      ["supabase/tests/privilege.test.sql"],
      "supabase/tests/privilege.test.sql does not exist. Did you mean supabase/tests/privileges.test.sql?",
    ],
    [["nothing/like/it"], "nothing/like/it does not exist."],
    [
      ["--filter", "x"],
      "--filter needs files or folders with tests in TypeScript.",
    ],
    [
      ["--filter", "x", "supabase/tests/privileges.test.sql"],
      "--filter needs files or folders with tests in TypeScript.",
    ],
  ] as const
) {
  Deno.test(`parseTestArguments() refuses ${args.join(" ")}`, () => {
    assertEquals(
      assertThrows(() => parse(...args), UsageError).message,
      message,
    );
  });
}

Deno.test("parseTestArguments() refuses SQL that is no test", () => {
  const [migration] = [...Deno.readDirSync(`${root}supabase/migrations`)];
  const path = `supabase/migrations/${migration!.name}`;
  assertEquals(
    assertThrows(() => parse(path), UsageError).message,
    `${path} is not a test. Tests in SQL are supabase/tests/*.test.sql.`,
  );
});

Deno.test("parseTestArguments() refuses an option that is unknown", () => {
  assertThrows(() => parse("--watch"), UsageError, "--watch");
});
