import { assertEquals, assertStringIncludes } from "@std/assert";
import { takenNames } from "../../../scripts/add/taken_names.ts";
import { planLines } from "../../../scripts/add/show_plan.ts";
import { makeProject, receiver, THEIRS } from "../../support/project_folder.ts";

/** What is taken after these migrations, in their order. */
function taken(...texts: string[]): string[] {
  const files = new Map(texts.map((text, i) => [`${i}_x.sql`, text]));
  const found = takenNames(receiver.migrations[0]!.text, files);
  return Array.from(found, ([name, file]) => `${name} in ${file}`);
}

for (
  const text of [
    "create table subscriptions (id text);",
    "create table public.subscriptions (id text);",
    'CREATE TABLE IF NOT EXISTS "public"."subscriptions" (id text);',
    "create or replace view public.subscriptions as select 1;",
    "create materialized view subscriptions as select 1;",
    "create unlogged table subscriptions\n(id text);",
    "alter table plans rename to subscriptions;",
    "drop table subscriptions; create table subscriptions (id text);",
  ]
) {
  Deno.test(`takenNames() finds ${text}`, () => {
    assertEquals(taken("select 1;", text), ["subscriptions in 1_x.sql"]);
  });
}

Deno.test("takenNames() finds functions, and each name once", () => {
  assertEquals(
    taken(
      "create function public.has_access(id text) returns bool;",
      "create or replace function has_access(id text) returns bool;",
    ),
    ["has_access in 1_x.sql"],
  );
});

Deno.test("takenNames() knows that the name of a function is free again", () => {
  const create = "create function public.has_access(id text) returns bool;";
  for (
    const text of [
      "drop function public.has_access(text);",
      "alter function public.has_access(text) rename to had_access;",
      "alter function has_access (id text, n numeric(1, 2)) set schema legacy;",
    ]
  ) assertEquals(taken(create, text), [], text);
});

for (
  const text of [
    "create table billing.subscriptions (id text);",
    "create table subscriptions_old (id text);",
    "-- create table subscriptions (id text);",
    "/* create table subscriptions\n(id text); */",
    "create index on plans (subscriptions);",
    "create policy subscriptions on public.plans for select using (true);",
    "alter table plans rename column x to subscriptions;",
  ]
) {
  Deno.test(`takenNames() does not take offence at ${text}`, () => {
    assertEquals(taken(text), []);
  });
}

for (
  const text of [
    "drop table subscriptions;",
    'drop table if exists "public"."subscriptions" cascade;',
    "alter table public.subscriptions rename to stripe_subscriptions;",
    "alter table if exists subscriptions set schema legacy;",
    "alter table only public.subscriptions rename to stripe_subscriptions;",
  ]
) {
  Deno.test(`takenNames() knows that the name is free after ${text}`, () => {
    assertEquals(taken("create table subscriptions (id text);", text), []);
  });
}

Deno.test("add warns of a name that is taken, once: as long as it adds the first migration", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "supabase/migrations/20250101000000_first.sql":
      "create table subscriptions (id text);",
  });
  const shown = planLines(await project.plan()).join("\n");
  assertStringIncludes(shown, "20250101000000_first.sql: subscriptions");
  assertStringIncludes(shown, "docs/switch.md");
  await project.add();
  assertEquals(planLines(await project.plan()).length, 1);
});

Deno.test("add warns of nothing in a project without such names", async () => {
  await using project = await makeProject();
  const shown = planLines(await project.plan()).join("\n");
  assertEquals(shown.includes("switch.md"), false);
});
