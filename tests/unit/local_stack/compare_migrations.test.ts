import { assertEquals } from "@std/assert";
import {
  compareMigrations,
  parseMigrationName,
} from "../../../scripts/local_stack/compare_migrations.ts";

const ONE = {
  version: "20261121000001",
  name: "billing_0001_subscriptions",
  text: "/* A; comment */\ncreate table one (id text);\n\nselect 1;\n",
};
const MINE = { version: "20261121000002", name: "mine", text: "select 2;" };

function texts(...args: Parameters<typeof compareMigrations>) {
  return compareMigrations(...args).map(({ text }) => text);
}

Deno.test("compareMigrations() says nothing if all are applied as they are", () => {
  const applied = {
    ...ONE,
    text: "/* A; comment */\ncreate table one (id text)select 1",
  };
  assertEquals(compareMigrations([ONE, MINE], [applied, MINE]), []);
});

Deno.test("compareMigrations() says what changed, is missing, or is not applied", () => {
  const changed = { ...ONE, text: ONE.text.replace("text", "uuid") };
  assertEquals(texts([changed, MINE], [ONE, MINE]), [
    "0001 changed since it was applied: deno task reset",
  ]);
  assertEquals(texts([ONE], [ONE, MINE]), [
    "20261121000002 is applied, and its file is gone: put it back, or deno task reset",
  ]);
  assertEquals(texts([ONE, MINE], [MINE]), [
    "0001 is not applied yet: restart deno task start",
  ]);
});

Deno.test("compareMigrations() compares each with its own version", () => {
  const swapped = [{ ...ONE, text: MINE.text }, { ...MINE, text: ONE.text }];
  assertEquals(compareMigrations(swapped, [ONE, MINE]).length, 2);
});

Deno.test("parseMigrationName() takes the CLI's names only", () => {
  assertEquals(parseMigrationName("2026_a_b.sql"), {
    version: "2026",
    name: "a_b",
  });
  for (const file of ["README.md", "a_2026.sql", "2026_a.sql~"]) {
    assertEquals(parseMigrationName(file), undefined);
  }
});
