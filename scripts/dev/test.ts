/**
 * `deno task test`: in parallel, the checks of the source, the unit tests, and in lanes
 * the tests that need a stack.
 */
import { existsSync } from "node:fs";
import { glob } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { abortOnEnd } from "../common/abort_on_end.ts";
import { commandLine, reportEnd, UsageError } from "../common/cli.ts";
import { withDatabase } from "../local_stack/databases.ts";
import { spawnGroup } from "../local_stack/tools.ts";
import {
  makeStackTemplate,
  openLane,
  temporaryFolder,
} from "../../tests/support/stacks.ts";
import { pages, writeDocCode } from "../../tests/support/docs.ts";
import { useMemory } from "../../tests/support/machine.ts";
import { emptyTables } from "../../tests/support/tables.ts";
import {
  downloadForTests,
  downloadOwn,
  NO_DOWNLOADS,
  OWN_OPTIONS,
  OWN_PACKAGES,
} from "./downloads.ts";

const parse = commandLine({
  usage: "test [files and folders]",
  summary: `Runs the tests, on real Postgres and PostgREST.

Without files and folders: formatting, lint, types and all tests. With them,
only their tests. Those in tests/unit need no database and start none.`,
  options: {
    "--filter TEXT":
      "only tests whose names contain this text; /.../ is a regular expression",
  },
});

interface Run {
  readonly name: string;
  readonly args: readonly string[];
  /** The folder whose own packages it needs. */
  readonly packages?: string | undefined;
  readonly env?: Record<string, string>; // beside this process's
}

const PGTAP = "tests/pgtap.test.ts";

/** Suits two cores, because tests wait a lot. Each lane has its own stack. */
const LANES = 4;

const ending = new AbortController();
const { signal } = ending;
const count = { passed: 0, failed: 0 };
const failedRuns: string[] = [];
/** Whether several run at once: then each prints its output when it has ended. */
let isSideBySide = false;

if (import.meta.main) {
  await abortOnEnd(ending, Deno.env.toObject());
  // In runs this short, optimizing, compiler threads and a large heap cost more time
  // than they save.
  const v8 = "--single-threaded,--no-opt,--max-semi-space-size=2";
  Deno.env.set("DENO_V8_FLAGS", v8);
  Deno.env.set("BUN_JSC_useBaselineJIT", "0"); // of the Supabase CLI
  Deno.env.set("BUN_JSC_numberOfGCMarkers", "1");

  try {
    const { values, operands } = parse(Deno.args);
    isSideBySide = operands.length === 0;
    if (isSideBySide) await testAll();
    else await testNamed(operands, values.filter);
    console.log(`\n${count.passed} passed, ${count.failed} failed`);
    for (const name of failedRuns) console.log(`FAILED: ${name}`);
    Deno.exit(count.failed === 0 && count.passed > 0 ? 0 : 1);
  } catch (error) {
    if (!signal.aborted) Deno.exit(reportEnd(error, { err: console.error }));
    console.log("\nInterrupted");
    Deno.exit(130);
  }
}

async function testAll(): Promise<void> {
  await useMemory();
  await using opened = new AsyncDisposableStack();
  await settle([
    checkSource(),
    run(tests("unit tests", await asOneModule("unit", opened))),
    testOnStacks(opened),
  ]);
}

async function checkSource(): Promise<void> {
  await run({ name: "formatting", args: ["fmt", "--check"] });
  await run({ name: "lint", args: ["lint"] });
  await using code = await writeDocCode(pages());
  const args = ["check", "--config", "deno.json", ".", ...code.files];
  await run({ name: "types, with the pages' TypeScript", args });
}

async function testOnStacks(opened: AsyncDisposableStack): Promise<void> {
  const template = await temporaryFolder(opened);
  const downloads = downloadForTests(signal);
  await settle([downloads, makeStackTemplate(template, signal)]);
  const denoPath = await downloads;

  // What takes long or waits comes first, so that the lanes end together. The cases
  // that a server may answer by itself run on both versions of Deno.
  const all = (name: string) => asOneModule(name, opened);
  await runInLanes(template, [
    tests("deployment", await all("deploy"), { denoPath }),
    tests("faults", await all("faults")),
    tests("import and reconcile", "tests/stripe_sync"),
    tests("catalogue", "tests/catalogue", { denoPath }),
    tests("pages", "tests/docs"),
    tests("integration", await all("integration"), { denoPath }),
    tests("catalogue, as on a local stack", "tests/catalogue", {
      filter: "/^catalogue (2[1-7]|73):/",
    }),
    ...OWN_PACKAGES.map((folder) => tests(folder, folder)),
    tests("SQL", PGTAP),
    tests("properties", await all("property")),
    tests("fuzzing", "tests/fuzz"),
  ], LANES);
}

/**
 * Makes one module of a folder's tests: Deno allocates 80 MB per module, which
 * takes as long as all unit tests.
 */
async function asOneModule(name: string, opened: AsyncDisposableStack) {
  const folder = resolve("tests", name);
  const module = `${await temporaryFolder(opened)}/${name}.test.ts`;
  const files = await Array.fromAsync(glob(`${folder}/**/*.test.ts`));
  if (files.length === 0) throw new Error(`There are no tests in ${folder}.`);
  const imports = files.sort().map((file) => `await import("${file}");\n`);
  await Deno.writeTextFile(module, imports.join(""));
  return module;
}

async function testNamed(paths: readonly string[], filter?: string) {
  const missing = paths.find((path) => !existsSync(path));
  if (missing) throw new UsageError(`There is no ${missing}.`);
  // Some tests need the platform's Deno, or install the npm package.
  const denoPath = paths.some((path) => /^tests(\/deploy|\/?$)/.test(path))
    ? await downloadForTests(signal)
    : undefined;

  const runs = paths.map((path) => {
    const isSql = /^supabase\/tests\b/.test(path);
    if (!isSql) return tests(path, path, { filter, denoPath });
    const file = `/^${RegExp.escape(basename(path))} passes /`;
    return tests(path, PGTAP, { filter: /\.sql$/.test(path) ? file : filter });
  });

  const isUnit = ({ name }: Run) => /^tests\/unit(\/|$)/.test(name);
  for (const unit of runs.filter(isUnit)) await run(unit);
  const others = runs.filter((run) => !isUnit(run));
  if (others.length === 0) return;

  await using opened = new AsyncDisposableStack();
  const template = await temporaryFolder(opened);
  await makeStackTemplate(template, signal);
  await runInLanes(template, others, 1);
}

function tests(
  name: string,
  path: string,
  { filter, denoPath = Deno.execPath() }: {
    filter?: string | undefined;
    denoPath?: string | undefined;
  } = {},
): Run {
  const packages = OWN_PACKAGES
    .find((folder) => `${path}/`.startsWith(`${folder}/`));
  const args = ["test", "--allow-all", "--no-check", "--cached-only"];
  if (packages) args.push(...OWN_OPTIONS, "--frozen");
  if (filter !== undefined) args.push("--filter", filter);
  args.push(path);

  const env = { ...NO_DOWNLOADS, TEST_FUNCTIONS_DENO: denoPath };
  return { name, args, packages, env };
}

async function runInLanes(template: string, queue: Run[], lanes: number) {
  await settle(Array.from({ length: lanes }, async () => {
    await using lane = await openLane(template, signal);
    for (let next = queue.shift(); next; next = queue.shift()) {
      if (next.packages) await downloadOwn(next.packages, signal);
      await withDatabase(lane.env.TEST_DATABASE_URL, emptyTables);
      await run({ ...next, env: { ...next.env, ...lane.env } });
    }
  }));
}

/** Waits until all have ended and cleaned up, and then throws the first error. */
async function settle(work: Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) {
    if (result.status === "rejected") throw result.reason;
  }
}

/** Runs `deno`. A run that prints no count of tests counts as one. */
async function run({ name, args, env }: Run): Promise<void> {
  signal.throwIfAborted();
  await using opened = new AsyncDisposableStack(); // removes what a test leaves
  const TMPDIR = env?.["TMPDIR"] ?? await temporaryFolder(opened);
  const started = performance.now();
  console.log(`\n== ${name}${isSideBySide ? ": started" : ""}`);
  const { child, ended } = spawnGroup({
    command: Deno.execPath(),
    args,
    options: {
      // Commands print the same names for themselves with and without npx.
      env: { npm_command: "", ...env, TMPDIR },
      stdout: "piped",
      stderr: "inherit",
    },
    signal,
  });

  let output = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (!isSideBySide) await Deno.stdout.write(new TextEncoder().encode(text));
    output += text;
  }
  const { success } = await ended;
  signal.throwIfAborted();
  if (isSideBySide) console.log(output.trimEnd());
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`== ${name}: ${success ? "ok" : "FAILED"} (${seconds} s)`);

  const [, passed, failed] =
    /.*^(?:ok|FAILED) \| (\d+) passed.* \| (\d+) failed/ms
      .exec(stripVTControlCharacters(output)) ?? [0, +success, 0];
  if (!success) failedRuns.push(name);
  count.passed += +passed!;
  // A run may fail without a failed test: a leak, or an error outside of one.
  count.failed += Math.max(+failed!, +!success);
}
