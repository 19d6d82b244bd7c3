import { assert, assertEquals } from "@std/assert";
import runbook from "../../../docs/runbook.md" with { type: "text" };
import { ERRORS } from "../../../supabase/functions/_shared/billing/errors.ts";

Deno.test("the runbook says of every error code what errors.ts says, and of no other", () => {
  const rows = runbook.matchAll(
    /^\| `(\w+)` *\| (\d{3}) *\| (.+) \| (.+) \|$/gm,
  );
  assertEquals(
    Object.fromEntries(rows.map((row) => {
      const [, code = "", status, means, todo] = row.map((cell) => cell.trim());
      return [code, { status: Number(status), means, todo }];
    })),
    Object.fromEntries(
      Object.entries(ERRORS).map((
        [code, { body: _, ...rest }],
      ) => [code, rest]),
    ),
  );
});

Deno.test("what to do begins with a sentence that fits into a line of the live view", () => {
  for (const [code, { todo }] of Object.entries(ERRORS)) {
    const [first = ""] = todo.match(/^.*?\.(?= |$)/) ?? [];
    assert(
      first.length > 10 && code.length + first.length < 76,
      `${code}: ${first}`,
    );
  }
});
