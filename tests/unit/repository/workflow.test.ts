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

/** The first line of each command that the steps of a workflow run. */
function commandsOf(name: string): string[] {
  const text = (workflows().get(name) ?? "").replaceAll(/>-\n +/g, "")
    .replaceAll(/\n {10}(?=tests\/)/g, " ");
  return Array.from(
    text.matchAll(/^\s+run: ([^|\n]+)$/gm),
    ([, command = ""]) => command,
  );
}

Deno.test("the gate runs on Linux, and on macOS all of it but the browser", () => {
  const [linux, brew, macos = "", ...more] = commandsOf("ci.yml");
  assertEquals([linux, brew, more], [".ci/run", "brew install postgrest", []]);
  const named = macos.split(" ").filter((word) => word.includes("tests"));
  const folders = [...Deno.readDirSync(new URL("tests/", ROOT))]
    .filter(({ name, isDirectory }) =>
      isDirectory && !["console", "nginx"].includes(name) && hasTests(name)
    )
    .map(({ name }) => `tests/${name}`);
  assert(folders.length > 8);
  assertEquals(named.sort(), ["supabase/tests", ...folders].sort());
});

function hasTests(folder: string): boolean {
  return [...Deno.readDirSync(new URL(`tests/${folder}/`, ROOT))]
    .some(({ name, isDirectory }) =>
      name.endsWith(".test.ts") || (folder === "unit" && isDirectory)
    );
}

Deno.test("the audit, the latest CLI and the newest packages are tried every week", () => {
  const deno = gateDeno();
  assertEquals(commandsOf("weekly.yml"), [
    `${deno} audit`,
    `${deno} audit --lock tests/console/deno.lock`,
    `${deno} update --latest @supabase/cli-linux-x64`,
    `${deno} task test tests/deploy tests/docs`,
    `${deno} task locks --latest`,
    ".ci/run",
  ]);
});

Deno.test("workflows run tasks, packages and files that are there", () => {
  const { tasks } = JSON.parse(read("deno.json"));
  const { imports } = JSON.parse(read("import_map.json"));
  for (const [name, text] of workflows()) {
    for (const [, task = ""] of text.matchAll(/ task ([\w:]+)/g)) {
      assert(task in tasks, `${name}: ${task}`);
    }
    for (const [, title = ""] of text.matchAll(/ --latest (\S+)/g)) {
      assert(title in imports, `${name}: ${title}`);
    }
    for (const [path] of text.matchAll(/\bscripts\/\S+\.ts/g)) {
      assert(read(path) !== "", `${name}: ${path}`);
    }
  }
});

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

function gateDeno(): string {
  const [deno = ""] = /npx -y deno@\S+/.exec(read(".ci/run")) ?? [];
  assert(deno !== "");
  return deno;
}

Deno.test("every workflow runs the gate's Deno, and has a time limit for each job", () => {
  const deno = gateDeno();
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

Deno.test("only jobs that say why may write", () => {
  const granted = [...workflows()].flatMap(([name, text]) =>
    [...text.matchAll(/^ +([\w-]+): write|write-all/gm)]
      .map(([grant, what]) => `${name}: ${what ?? grant}`)
  );
  assertEquals(granted.sort(), [
    "publish.yml: contents",
    "publish.yml: id-token",
    "weekly.yml: contents",
    "weekly.yml: pull-requests",
  ]);
});

Deno.test("a job that may write runs neither tasks nor tests, whose packages it would trust", () => {
  const jobs = [...workflows()].flatMap(([name, text]) =>
    text.slice(text.indexOf("\njobs:")).split(/\n(?= {2}[\w-]+:\n)/).slice(1)
      .map((job) => ({ name: `${name}: ${job.trim().split(":")[0]}`, job }))
  ).filter(({ job }) => /^ {6}contents: write$/m.test(job));
  assertEquals(jobs.map(({ name }) => name).sort(), [
    "publish.yml: notes",
    "weekly.yml: propose",
  ]);
  for (const { name, job } of jobs) {
    assert(!/\.ci\/run|deno@\S+ (?:task|install|update)/.test(job), name);
  }
});
