import { assert, assertEquals } from "@std/assert";
import { parse } from "smol-toml";
import {
  planConfig,
  readConfig,
  sectionOf,
} from "../../../scripts/add/config.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";

const WEBHOOK = sectionOf("billing-webhook");
const BOTH = `${WEBHOOK}\n${sectionOf("billing-worker")}`;
const LOCK = '["./functions/billing-webhook/deno.lock"]';
const OPEN = BOTH.replace("false", "true");
const REMOTE = BOTH + OPEN.replaceAll("[functions", "[remotes.live.functions");

Deno.test("the sections are those of this repository's config.toml", async () => {
  const own = await Deno.readTextFile(`${REPOSITORY}/supabase/config.toml`);
  assertEquals(parse(BOTH)["functions"], parse(own)["functions"]);
});

for (
  const [before, gap] of [
    ["", ""],
    ["a = 1", "\n\n"],
    ["at = 1979-05-27T07:32:00Z\n", "\n"],
    ["\ufeffa = 1\n", "\n"],
    ["# [functions.billing-webhook]\n\n", ""],
    ["a = 1\r\n", "\r\n"],
  ] as const
) {
  Deno.test(`add appends its sections to ${JSON.stringify(before)}`, () => {
    const sections = BOTH.replaceAll("\n", gap === "\r\n" ? gap : "\n");
    const plan = planConfig(readConfig("config.toml", before));
    assertEquals(plan, { text: before + gap + sections, todo: [] });
  });
}

for (
  const [text, left] of [
    [BOTH, ""],
    [BOTH.replaceAll("[functions.b", "[ functions . b"), ""],
    [BOTH.replace("= [", '= [ "./mine", '), ""],
    [OPEN, "In supabase/config.toml, [functions.billing-webhook] needs verify"],
    [BOTH.replace(LOCK, "[]"), `-webhook] needs static_files = ${LOCK}.`],
    [REMOTE, "[remotes.live.functions.billing-webhook] needs verify_jwt = fa"],
    [`db.migrations.enabled = false\n${BOTH}`, "[db.migrations] needs enabled"],
    ["functions = { hello = { } }\n", `supabase/config.toml needs\n\n${BOTH}`],
    ["a = \n", `supabase/config.toml needs\n\n${BOTH}`],
  ] as const
) {
  Deno.test(`add leaves ${JSON.stringify(text)} as it is, with: ${left}`, () => {
    const plan = planConfig(readConfig("config.toml", text));
    assertEquals([plan.text, plan.todo.length], [undefined, left ? 1 : 0]);
    assert(plan.todo.join().includes(left), plan.todo.join());
  });
}
