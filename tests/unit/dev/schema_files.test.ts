import { assertEquals } from "@std/assert";
import { definitionsOf } from "../../../scripts/dev/schema_files.ts";

const FILES = new Map([
  [
    "1.sql",
    "create table public.t (id int);\ncreate view public.v as select 1;",
  ],
  [
    "2.sql",
    "create function public.f() returns int\n  select * from public.t;",
  ],
  [
    "3.sql",
    "alter table public.t add column x int;\ncreate index i on public.t (x);",
  ],
  ["4.sql", "create or replace function public.f() returns int"],
  ["5.sql", "create trigger x\nbefore update\non public.t for each row"],
  ["6.sql", "grant execute on function public.f() to service_role;"],
  ["7.sql", "-- alter table public.v\nselect * from public.v;"],
]);

Deno.test("definitionsOf() names the migration that made an object, and those that changed it since", () => {
  assertEquals(Object.fromEntries(definitionsOf(FILES)), {
    t: { kind: "table", migrations: ["1.sql", "3.sql", "5.sql"] },
    v: { kind: "view", migrations: ["1.sql"] },
    f: { kind: "function", migrations: ["4.sql", "6.sql"] },
  });
});
