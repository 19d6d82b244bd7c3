/**
 * The workflows of the repository's host.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../../../", import.meta.url);
const FOLDER = new URL(".github/workflows/", ROOT);
/** At the beginning of a step or of a job, or in braces, quoted or not. */
const USES = /(?:^|[\s{,-])["']?uses["']?\s*:/;

/** The workflows by their names, without their comments. */
function workflows(): Map<string, string> {
  return new Map(
    [...Deno.readDirSync(FOLDER)].map(({ name }) => [
      name,
      Deno.readTextFileSync(new URL(name, FOLDER))
        .split("\n").filter((line) => !/^\s*#/.test(line)).join("\n"),
    ]),
  );
}

Deno.test("no workflow uses an action or a workflow of somebody else", () => {
  for (const [name, text] of workflows()) {
    assert(!text.split("\n").some((line) => USES.test(line)), name);
  }
  for (
    const line of [
      "      - uses: actions/checkout@v5",
      "        uses : ./.github/actions/mine",
      '      - {"uses": "a/b@c"}',
      "    uses: a/b/.github/workflows/c.yml@d",
    ]
  ) assert(USES.test(line), line);
});

Deno.test("the workflow runs the gate, and the audit with the gate's Deno", () => {
  const text = workflows().get("ci.yml") ?? "";
  const gate = Deno.readTextFileSync(new URL(".ci/run", ROOT));
  const [deno] = /npx -y deno@\S+/.exec(gate) ?? [];
  const commands = [...text.matchAll(/^\s+run: ([^|\n]+)$/gm)]
    .map(([, command]) => command);
  assertEquals(commands, [".ci/run", `${deno} audit`]);
});

Deno.test("every workflow runs the gate's Deno, and has a time limit for each job", () => {
  const gate = Deno.readTextFileSync(new URL(".ci/run", ROOT));
  const [deno] = /npx -y deno@\S+/.exec(gate) ?? [];
  for (const [name, text] of workflows()) {
    for (const [used] of text.matchAll(/npx -y deno\S+/g)) {
      assertEquals(used, deno, name);
    }
    assertEquals(
      text.match(/^ {4}timeout-minutes: \d+$/gm)?.length,
      text.match(/^ {4}runs-on: /gm)?.length,
      name,
    );
  }
});

Deno.test("a workflow may read the repository, and no more", () => {
  for (const [name, text] of workflows()) {
    assertEquals(
      [...text.matchAll(/^permissions:\n((?: {2}.+\n)+)/gm)].map(([, all]) =>
        all
      ),
      ["  contents: read\n"],
      name,
    );
  }
});

Deno.test("only the job that publishes may prove where it runs", () => {
  const granted = [...workflows()].flatMap(([name, text]) =>
    [...text.matchAll(/^ +([\w-]+): write|write-all/gm)]
      .map(([grant, what]) => `${name}: ${what ?? grant}`)
  );
  assertEquals(granted, ["publish.yml: id-token"]);
});
