import { assertEquals, assertThrows } from "@std/assert";
import {
  migrationOf,
  planMigrations,
} from "../../../scripts/add/migrations.ts";

const ours = [
  "20261121000001_billing_0001_a.sql",
  "20261121000002_billing_0002_b.sql",
]
  .map((name) => migrationOf(name, `-- ${name}`));

const NOW = () => Date.parse("2026-11-22T10:00:00Z");

/** The plan for a project with these files. */
function planFor(files: readonly string[], recorded = {}) {
  return planMigrations(ours, { files, recorded }, NOW);
}

/** The names that the missing migrations get. */
function namesFor(files: readonly string[]): string[] {
  return [...planFor(files).added.keys()];
}

Deno.test("planMigrations() gives new migrations the seconds before now", () => {
  const { added, ahead } = planFor(["20250101000000_theirs.sql"]);
  assertEquals([...added.keys()], [
    "20261122095958_billing_0001_a.sql",
    "20261122095959_billing_0002_b.sql",
  ]);
  assertEquals(ahead, undefined);
});

for (
  const [newest, first, second] of [
    ["20261122095957", "20261122095958", "20261122095959"],
    ["20261122095958", "20261122095959", "20261122100000"],
    ["20261122100000", "20261122100001", "20261122100002"],
    ["20271231235959", "20280101000000", "20280101000001"],
    ["20990230250099", "20990230250100", "20990230250101"], // no such time
    ["20250101", "20261122095958", "20261122095959"],
    ["0007", "0008", "0009"],
    ["0999", "1000", "1001"],
    ["7", "8", "9"],
  ] as const
) {
  Deno.test(`planMigrations() puts new migrations behind ${newest}`, () => {
    const added = namesFor([`${newest}_theirs.sql`, "README.md", "x_1.sql"]);
    assertEquals(added, [
      `${first}_billing_0001_a.sql`,
      `${second}_billing_0002_b.sql`,
    ]);
    assertEquals([...added, newest].sort()[0], newest);
  });
}

for (
  const [newest, ahead] of [
    ["20261122095957", undefined],
    ["20261122095958", "20261122100000"],
    ["20261122100000", "20261122100002"],
    ["20271231235959", "20280101000001"],
    ["0007", undefined],
    ["7", undefined],
  ] as const
) {
  Deno.test(`planMigrations() says whether it goes beyond now, behind ${newest}`, () => {
    assertEquals(planFor([`${newest}_theirs.sql`]).ahead, ahead);
  });
}

Deno.test("planMigrations() says so if no version sorts behind the newest", () => {
  assertThrows(() => namesFor(["9999_theirs.sql"]), Error, "behind 9999");
});

Deno.test("planMigrations() adds only what is missing, behind everything", () => {
  const [first = "", ...more] = namesFor([
    "0003_billing_0001_a.sql",
    "0004_c.sql",
  ]);
  assertEquals([first, more], ["0005_billing_0002_b.sql", []]);
});

Deno.test("planMigrations() knows its own under any version", () => {
  const files = ["20200101000000_billing_0001_a.sql", "7_billing_0002_b.sql"];
  const plan = planFor(files);
  assertEquals([...plan.added], []);
  assertEquals(plan.recorded, { "0001": files[0]!, "0002": files[1]! });
});

Deno.test("planMigrations() does not take another project's file for its own", () => {
  const theirs = [
    "20250101000000_billing_0001_invoices.sql",
    "20250101000001_b.sql",
  ];
  assertEquals(namesFor(theirs).length, 2);
});

Deno.test("planMigrations() does not add again what was squashed", () => {
  const recorded = { "0001": "20260101000000_billing_0001_a.sql" };
  const plan = planFor(["20260601000000_squashed.sql"], recorded);
  assertEquals(plan.squashed, ["0001"]);
  assertEquals([...plan.added.keys()], ["20261122095959_billing_0002_b.sql"]);
  assertEquals(plan.recorded, {
    ...recorded,
    "0002": "20261122095959_billing_0002_b.sql",
  });
});

Deno.test("planMigrations() names the later of two copies", () => {
  const files = [
    "20260301000000_billing_0001_a.sql",
    "20260302000000_billing_0001_a.sql",
    "20260301000001_billing_0002_b.sql",
  ];
  const plan = planFor(files);
  assertEquals([...plan.twice], [[files[1]!, files[0]!]]);
});

Deno.test("migrationOf() refuses a file without a number", () => {
  assertThrows(() => migrationOf("20261121000001_a.sql", ""), Error, "_NNNN_");
});
