import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { parse } from "smol-toml";
import {
  planConfig,
  sectionsOf,
} from "../../../scripts/add/config_sections.ts";

const OWN = await Deno.readTextFile(
  new URL("../../../supabase/config.toml", import.meta.url),
);
const WEBHOOK = "[functions.billing-webhook]\nverify_jwt = false\n";
const WORKER = "[functions.billing-worker]\nverify_jwt = false\n";
const sections = sectionsOf(`${WEBHOOK}\n${WORKER}`);

function planFor(text: string, name = "config.toml") {
  return planConfig({ name, text }, sections);
}

Deno.test("sectionsOf() takes the sections of this repository's config.toml", () => {
  assertEquals(
    [...sectionsOf(OWN)],
    ([["billing-webhook", WEBHOOK], ["billing-worker", WORKER]] as const)
      .map(([name, section]) => [
        name,
        `${section}static_files = ["./functions/${name}/deno.lock"]\n`,
      ]),
  );
});

Deno.test("sectionsOf() takes a section with several keys and comments", () => {
  const section =
    '[functions.x]\n# why\nverify_jwt = false\nstatic_files = [\n  "a",\n]\n';
  assertEquals(
    [...sectionsOf(`a = 1\n\n${section}\n[db]\nport = 1\n`)],
    [["x", section]],
  );
});

const APPENDED: Record<string, [before: string, after: string]> = {
  "an empty file": ["", `${WEBHOOK}\n${WORKER}`],
  "comments, which stay": [
    'project_id = "x" # mine\n\n# [functions.billing-webhook]\n',
    `project_id = "x" # mine\n\n# [functions.billing-webhook]\n\n${WEBHOOK}\n${WORKER}`,
  ],
  "no final newline": ["a = 1", `a = 1\n\n${WEBHOOK}\n${WORKER}`],
  "CRLF": [
    "a = 1\r\n[db]\r\nport = 1\r\n",
    `a = 1\n[db]\nport = 1\n\n${WEBHOOK}\n${WORKER}`.replaceAll("\n", "\r\n"),
  ],
  "CRLF and no final newline": [
    "a = 1\r\nb = 2",
    `a = 1\nb = 2\n\n${WEBHOOK}\n${WORKER}`.replaceAll("\n", "\r\n"),
  ],
  "a byte order mark": [
    "\ufeffa = 1\n",
    `\ufeffa = 1\n\n${WEBHOOK}\n${WORKER}`,
  ],
  "one of the sections": [WORKER, `${WORKER}\n${WEBHOOK}`],
  "dates and large numbers": [
    "at = 1979-05-27T07:32:00Z\nn = 9007199254740991\n",
    `at = 1979-05-27T07:32:00Z\nn = 9007199254740991\n\n${WEBHOOK}\n${WORKER}`,
  ],
};

for (const [what, [before, after]] of Object.entries(APPENDED)) {
  Deno.test(`planConfig() appends the sections to ${what}`, () => {
    const plan = planFor(before);
    assertEquals(plan, { text: after, todo: [], warnings: [] });
    parse(after);
  });
}

for (
  const present of [
    `${WEBHOOK}${WORKER}`,
    '[functions."billing-webhook"]\nverify_jwt = false\n[ functions . billing-worker ]\nenabled = true\nverify_jwt=false',
    "functions = { billing-webhook = { verify_jwt = false }, billing-worker = { verify_jwt = false } }",
    "functions.billing-webhook.verify_jwt = false\nfunctions.billing-worker.verify_jwt = false",
  ]
) {
  Deno.test(`planConfig() leaves what is right as it is: ${present.split("\n")[0]}`, () => {
    assertEquals(planFor(present), { text: undefined, todo: [], warnings: [] });
  });
}

Deno.test("planConfig() is content with a list that has more than the receiver's", () => {
  const section = '[functions.x]\nstatic_files = ["./a.lock"]\n';
  const present = '[functions.x]\nstatic_files = ["./mine", "./a.lock"]\n';
  const file = { name: "config.toml", text: present };
  assertEquals(planConfig(file, sectionsOf(section)).todo, []);
  const without = {
    ...file,
    text: '[functions.x]\nstatic_files = ["./mine"]\n',
  };
  assertEquals(planConfig(without, sectionsOf(section)).todo, [
    'In supabase/config.toml, x needs static_files = ["./a.lock"].',
  ]);
});

for (
  const section of [
    "[functions.billing-webhook]\nverify_jwt = true\n",
    "[functions.'billing-webhook']\nenabled = true\n",
  ]
) {
  Deno.test(`planConfig() says what to change in ${JSON.stringify(section)}`, () => {
    const plan = planFor(section + WORKER);
    assertEquals(plan.text, undefined);
    assertEquals(plan.todo, [
      "In supabase/config.toml, billing-webhook needs verify_jwt = false.",
    ]);
  });
}

for (
  const [what, text] of [
    ["an inline table", "functions = { hello = { verify_jwt = true } }\n"],
    ["a file that is not valid", "a = \n"],
  ] as const
) {
  Deno.test(`planConfig() shows the sections instead of writing them to ${what}`, () => {
    const plan = planFor(text);
    assertEquals(plan.text, undefined);
    assertStringIncludes(plan.todo.join("\n"), WEBHOOK + "\n" + WORKER.trim());
  });
}

for (
  const [name, text] of [
    ["config.json", '{ "project_id": "x" }'],
    ["config.jsonc", '{\n  // "mine"\n  "url": "https://x.y/*z*/", \n}'],
  ] as const
) {
  Deno.test(`planConfig() says what to add to ${name}, and does not write it`, () => {
    const plan = planFor(text, name);
    assertEquals(plan.text, undefined);
    const [todo = "", ...more] = plan.todo;
    assertEquals(more, []);
    assertStringIncludes(todo, `Put this into supabase/${name}`);
    assertEquals(JSON.parse(todo.slice(todo.indexOf("{"))), {
      functions: {
        "billing-webhook": { verify_jwt: false },
        "billing-worker": { verify_jwt: false },
      },
    });
  });

  Deno.test(`planConfig() is content with a ${name} that has the sections`, () => {
    const done = text.replace(
      "{",
      '{ "functions": { "billing-webhook": { "verify_jwt": false }, "billing-worker": { "verify_jwt": false } },',
    );
    assertEquals(planFor(done, name).todo, []);
  });
}

Deno.test("planConfig() warns if db push applies nothing", () => {
  const { warnings, text } = planFor("[db.migrations]\nenabled = false\n");
  assert(text);
  assertEquals(warnings.length, 1);
  assertStringIncludes(warnings[0]!, '"supabase db push" applies');
  assertEquals(planFor("[db.migrations]\nenabled = true\n").warnings, []);
});

Deno.test("planConfig() warns of a remote's own section", () => {
  const remote = (verify: boolean) =>
    planFor(
      `[remotes.live]\nproject_id = "x"\n[remotes.live.functions.billing-webhook]\nverify_jwt = ${verify}\n`,
    );
  assertStringIncludes(
    remote(true).warnings.join(),
    "remotes.live.functions.billing-webhook",
  );
  assertEquals(remote(false).warnings, []);
  assert(remote(true).text, "the section is added all the same");
});
