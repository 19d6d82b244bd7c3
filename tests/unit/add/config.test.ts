import { assertEquals } from "@std/assert";
import { parse } from "smol-toml";
import {
  planConfig,
  readConfig,
  sectionOf,
} from "../../../scripts/add/config.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";

const WEBHOOK = sectionOf("billing-webhook");
const WORKER = sectionOf("billing-worker");
const BOTH = `${WEBHOOK}\n${WORKER}`;
const LOCK = '["./functions/billing-webhook/deno.lock"]';
const REMOTE = `[remotes.live.functions.billing-webhook]
verify_jwt = true
static_files = ${LOCK}
`;
const OFF = "[db.migrations]\nenabled = false\n";

Deno.test("the sections are those of this repository's config.toml", async () => {
  const own = await Deno.readTextFile(`${REPOSITORY}/supabase/config.toml`);
  assertEquals(parse(BOTH)["functions"], parse(own)["functions"]);
});

for (
  const [before, after, left] of [
    ["", BOTH, ""],
    ["a = 1", `a = 1\n\n${BOTH}`, ""],
    [
      "# [functions.billing-webhook]\n\n",
      `# [functions.billing-webhook]\n\n${BOTH}`,
      "",
    ],
    ["a = 1\r\n", `a = 1\n\n${BOTH}`.replaceAll("\n", "\r\n"), ""],
    ["\ufeffa = 1\n", `\ufeffa = 1\n\n${BOTH}`, ""],
    [WORKER, `${WORKER}\n${WEBHOOK}`, ""],
    ["at = 1979-05-27T07:32:00Z\n", `at = 1979-05-27T07:32:00Z\n\n${BOTH}`, ""],
    [BOTH, undefined, ""],
    [BOTH.replaceAll("[functions.b", "[ functions . b"), undefined, ""],
    [BOTH.replace("= [", '= [ "./mine", '), undefined, ""],
    [
      BOTH.replace("false", "true"),
      undefined,
      "In supabase/config.toml, [functions.billing-webhook] needs verify_jwt = false.",
    ],
    [
      BOTH.replace(LOCK, "[]"),
      undefined,
      `In supabase/config.toml, [functions.billing-webhook] needs static_files = ${LOCK}.`,
    ],
    [
      BOTH + REMOTE,
      undefined,
      "In supabase/config.toml, [remotes.live.functions.billing-webhook] needs verify_jwt = false.",
    ],
    [
      BOTH + OFF,
      undefined,
      'In supabase/config.toml, [db.migrations] needs enabled = true: without it, "supabase db push" applies nothing.',
    ],
    [
      "functions = { hello = { } }\n",
      undefined,
      `supabase/config.toml needs\n\n${BOTH}`,
    ],
    ["a = \n", undefined, `supabase/config.toml needs\n\n${BOTH}`],
  ] as const
) {
  Deno.test(`add, with ${JSON.stringify(before)} in config.toml`, () => {
    const { text, todo } = planConfig(readConfig("config.toml", before));
    assertEquals([text, todo], [after, left ? [left] : []]);
  });
}
