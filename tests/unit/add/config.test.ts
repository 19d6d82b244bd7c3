import { assertEquals, assertStringIncludes } from "@std/assert";
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

function planFor(text: string) {
  return planConfig(readConfig("config.toml", text));
}

Deno.test("the sections are those of this repository's config.toml", async () => {
  const own = await Deno.readTextFile(`${REPOSITORY}/supabase/config.toml`);
  assertEquals(parse(BOTH)["functions"], parse(own)["functions"]);
});

for (
  const [what, before, after] of [
    ["an empty file", "", BOTH],
    [
      "comments, which stay",
      'a = "x" # mine\n\n# [functions.billing-webhook]\n',
      `a = "x" # mine\n\n# [functions.billing-webhook]\n\n${BOTH}`,
    ],
    ["no final newline", "a = 1", `a = 1\n\n${BOTH}`],
    [
      "CRLF",
      "a = 1\r\n[db]\r\nport = 1\r\n",
      `a = 1\n[db]\nport = 1\n\n${BOTH}`.replaceAll("\n", "\r\n"),
    ],
    ["a byte order mark", "\ufeffa = 1\n", `\ufeffa = 1\n\n${BOTH}`],
    ["one of the sections", WORKER, `${WORKER}\n${WEBHOOK}`],
    [
      "dates and large numbers",
      "at = 1979-05-27T07:32:00Z\nn = 9007199254740991\n",
      `at = 1979-05-27T07:32:00Z\nn = 9007199254740991\n\n${BOTH}`,
    ],
  ] as const
) {
  Deno.test(`planConfig() appends the sections to ${what}`, () => {
    assertEquals(planFor(before), { text: after, todo: [] });
    parse(after);
  });
}

for (
  const present of [
    BOTH,
    BOTH.replaceAll("[functions.billing-", "[ functions . billing-"),
    BOTH.replace("= [", '= [ "./mine", '),
  ]
) {
  Deno.test(`planConfig() leaves what is right as it is: ${present.split("\n")[0]}`, () => {
    assertEquals(planFor(present), { todo: [] });
  });
}

for (
  const [text, left] of [
    [
      BOTH.replace("false", "true"),
      "[functions.billing-webhook] needs verify_jwt = false.",
    ],
    [
      BOTH.replace('"./functions/billing-webhook/deno.lock"', ""),
      '[functions.billing-webhook] needs static_files = ["./functions/billing-webhook/deno.lock"].',
    ],
    [
      `${BOTH}[db.migrations]\nenabled = false\n`,
      "[db.migrations] needs enabled = true",
    ],
    [
      `${BOTH}[remotes.live]\nproject_id = "x"\n[remotes.live.functions.billing-webhook]\nverify_jwt = true\nstatic_files = ["./functions/billing-webhook/deno.lock"]\n`,
      "[remotes.live.functions.billing-webhook] needs verify_jwt = false.",
    ],
    ["functions = { hello = { verify_jwt = true } }\n", BOTH],
    ["a = \n", BOTH],
  ] as const
) {
  Deno.test(`planConfig() leaves to the user: ${left.split("\n")[0]}`, () => {
    const { text: changed, todo } = planFor(text);
    assertEquals([changed, todo.length], [undefined, 1]);
    assertStringIncludes(todo[0]!, left);
  });
}
