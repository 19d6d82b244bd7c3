import { assert, assertEquals } from "@std/assert";
import {
  type ErrorCode,
  ERRORS,
} from "../../../supabase/functions/_shared/billing/errors.ts";

/**
 * Compares the page's tables with `errors.ts`. With UPDATE_EXAMPLES=1, it is written into
 * them; `deno fmt` aligns the columns.
 */
Deno.test("docs/operate.md says of every code what errors.ts says", async () => {
  const file = new URL("../../../docs/operate.md", import.meta.url);
  const page = await Deno.readTextFile(file);

  const codes: string[] = [];
  let above = "";
  const expected = page.replaceAll(/^\| `(\w+)` \d{3} .*$/gm, (_, code) => {
    assert(Object.hasOwn(ERRORS, code), code);
    const { status, means, todo } = ERRORS[code as ErrorCode];
    const advice = todo === above ? "as above" : todo;
    codes.push(code);
    above = todo;
    return `| \`${code}\` ${status} | ${means} | ${advice} |`;
  });

  assertEquals(codes.sort(), Object.keys(ERRORS).sort());
  if (Deno.env.get("UPDATE_EXAMPLES") === "1") {
    await Deno.writeTextFile(file, expected);
  } else {
    const unaligned = (text: string) => text.replaceAll(/ +/g, " ");
    assertEquals(unaligned(page), unaligned(expected));
  }
});
