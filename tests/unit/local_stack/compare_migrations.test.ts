import { assertEquals } from "@std/assert";
import { compareMigrations } from "../../../scripts/local_stack/compare_migrations.ts";

const OURS = {
  version: "20261125000000",
  text: "/* A; comment */\ncreate table one (id text);\n\nselect 1;\n",
};
const MINE = { version: "20261126000000", text: "select 2;" };
const OTHER = {
  kind: "changed",
  text: "the data was made by another version: deno task reset",
} as const;

Deno.test("compareMigrations() says nothing if all are applied as they are", () => {
  // As the Supabase CLI stores it.
  const text = "/* A; comment */\ncreate table one (id text)select 1";
  const applied = [{ ...OURS, text }, MINE];
  assertEquals(compareMigrations([OURS, MINE], applied), undefined);
});

Deno.test("compareMigrations() says so if the data was made by others", () => {
  const changed = { ...OURS, text: OURS.text.replace("text", "uuid") };
  assertEquals(compareMigrations([changed], [OURS]), OTHER);
  assertEquals(compareMigrations([OURS], [OURS, MINE]), OTHER);
  assertEquals(compareMigrations([OURS], [MINE]), OTHER);
  const swapped = [{ ...OURS, text: MINE.text }, { ...MINE, text: OURS.text }];
  assertEquals(compareMigrations(swapped, [OURS, MINE]), OTHER);
});

Deno.test("compareMigrations() says which one waits", () => {
  assertEquals(compareMigrations([OURS], [])?.kind, "waiting");
  assertEquals(compareMigrations([OURS, MINE], [OURS]), {
    kind: "waiting",
    text: "20261126000000 is not applied yet: restart deno task start",
  });
});
