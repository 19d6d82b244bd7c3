/**
 * `deno task test`: the whole gate, on the real parts.
 *
 * Side by side: formatting, lint and types; unit tests; and, in lanes, what needs
 * a stack. With arguments, only the named test files or folders run.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, relative, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import postgres from "postgres";
import { abortOnEnd } from "../common/abort_on_end.ts";
import {
  type CommandLine,
  parseCommandLine,
  reportEnd,
  UsageError,
} from "../common/cli.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { spawnGroup } from "../local_stack/tools.ts";
import { databaseUrls } from "../local_stack/databases.ts";
import { startStack } from "../local_stack/stack.ts";
import {
  copyStackTemplate,
  LEGACY_DATABASE,
  makeStackTemplate,
} from "../../tests/support/stacks.ts";
import { emptyTables } from "../../tests/support/tables.ts";
import {
  BROWSER_FOLDER,
  BROWSER_OPTIONS,
  downloadBrowser,
  downloadForTests,
  EDGE_DENO_VERSION,
  NO_DOWNLOADS,
} from "./downloads.ts";

const COMMAND_LINE = {
  usage: "test [files and folders]",
  summary: `Runs the tests, on real Postgres and PostgREST.

Without files and folders: formatting, lint, types and all tests. With them,
only their tests: *.test.ts, or supabase/tests/*.test.sql for pgTAP. Those in
tests/unit need no database and start none.`,
  options: {
    "--filter TEXT":
      "only tests whose names contain this text; /.../ is a regular expression",
  },
  details:
    `Exit code: 0 if tests ran and all passed, 1 if one failed or none ran, 2 for a
wrong command line, 130 if it was interrupted.`,
} as const satisfies CommandLine;

/** One `deno test`. */
interface Run {
  readonly name: string;
  readonly files: readonly string[];
  readonly filter?: string | undefined;
  /** The Deno that serves the functions, if it is not this one. */
  readonly denoPath?: string;
}

interface Result {
  readonly passed: number;
  readonly failed: number;
}

const UNIT_TESTS = "tests/unit";
const PGTAP = "tests/pgtap.test.ts";

/**
 * For two cores: one lane keeps a core busy, two others mostly wait. Each has a
 * stack of its own, because tests count on empty tables and end its services.
 */
const LANES = 3;
/** The longest run takes one to two minutes; one that hangs must not hide why. */
const RUN_LIMIT_MS = 10 * 60_000;
const INTERRUPTED = 130;

if (import.meta.main) {
  const ending = new AbortController();
  await abortOnEnd(ending, Deno.env.toObject());
  try {
    const { values, operands } = parseCommandLine(Deno.args, COMMAND_LINE);
    const paths = operands.map(checkedPath);
    const results = paths.length > 0
      ? await testNamed(paths, values.filter, ending.signal)
      : await testAll(ending.signal);
    const passed = results.reduce((sum, result) => sum + result.passed, 0);
    const failed = results.reduce((sum, result) => sum + result.failed, 0);
    console.log(`\n${passed} passed, ${failed} failed`);
    Deno.exit(failed === 0 && passed > 0 ? 0 : 1);
  } catch (error) {
    if (!ending.signal.aborted) {
      Deno.exit(reportEnd(error, { err: console.error }));
    }
    console.log("\nInterrupted");
    Deno.exit(INTERRUPTED);
  }
}

/**
 * All runs that need a stack. What takes long comes first, so that the lanes end
 * together.
 *
 * Integration tests have the functions served by the Deno that Supabase's runtime
 * is built on. The catalogue of bad input also has them served by the Deno that
 * runs the tests, as on a local stack: how a broken request is answered depends on
 * the server.
 */
function allRuns(edgeDeno: string): Run[] {
  const onEdge = (name: string): Run => ({
    name: `${name}, served by Deno ${EDGE_DENO_VERSION}`,
    files: [`tests/${name}`],
    denoPath: edgeDeno,
  });
  return [
    onEdge("integration"),
    { name: "deployment", files: ["tests/deploy"] },
    { name: "SQL and properties", files: [PGTAP, "tests/property"] },
    { name: "import and reconcile", files: ["tests/stripe_sync"] },
    onEdge("catalogue"),
    { name: "catalogue", files: ["tests/catalogue"] },
    { name: "faults", files: ["tests/faults"] },
    { name: "start at a terminal", files: ["tests/start"] },
    { name: "console in a browser", files: [BROWSER_FOLDER] },
    { name: "pages", files: ["tests/docs"] },
    { name: "fuzzing", files: ["tests/fuzz"] },
  ];
}

async function testAll(signal: AbortSignal): Promise<Result[]> {
  await useMemory();
  const beside = { isBeside: true, signal };
  const results = await Promise.allSettled([
    (async () => [
      await runDeno("formatting", { args: ["fmt", "--check"], ...beside }),
      await runDeno("lint", { args: ["lint"], ...beside }),
      await runDeno("types", { args: ["check"], ...beside }),
    ])(),
    runTests({ name: "unit tests", files: [UNIT_TESTS] }, beside)
      .then((result) => [result]),
    (async () => {
      const edgeDeno = await downloadForTests(signal);
      await downloadBrowser(signal);
      return await runInLanes(allRuns(edgeDeno), { lanes: LANES, signal });
    })(),
  ]);
  return resultsOf(results);
}

/** Each has ended, and cleaned up, before the first fault is reported. */
function resultsOf<T>(ended: PromiseSettledResult<T[]>[]): T[] {
  return ended.flatMap((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}

async function testNamed(
  paths: readonly string[],
  filter: string | undefined,
  signal: AbortSignal,
): Promise<Result[]> {
  // Some serve functions with the platform's Deno, or install the npm package.
  if (paths.some((path) => /^tests(\/deploy|$)/.test(path))) {
    await downloadForTests(signal);
  }
  const { unit = [], browser = [], sql = [], others = [] } = Object.groupBy(
    paths,
    (path) =>
      isWithin(path, UNIT_TESTS)
        ? "unit"
        : isWithin(path, BROWSER_FOLDER)
        ? "browser"
        : path.endsWith(".sql")
        ? "sql"
        : "others",
  );
  if (browser.length > 0) await downloadBrowser(signal);
  const onStack: Run[] = [
    // SQL comes first: its tests leave nothing behind, and count on empty tables.
    ...sql.map((path) => ({
      name: path,
      files: [PGTAP],
      filter: `/^${RegExp.escape(basename(path))} passes /`,
    })),
    { name: "tests", files: others, filter },
    { name: "console in a browser", files: browser, filter },
  ].filter(({ files }) => files.length > 0);
  const results = [];
  if (unit.length > 0) {
    const run = { name: "unit tests", files: unit, filter };
    results.push(await runTests(run, { signal }));
  }
  if (onStack.length > 0) {
    results.push(...await runInLanes(onStack, { lanes: 1, signal }));
  }
  return results;
}

/** Runs what needs a stack. Whichever lane is done takes the next run. */
async function runInLanes(
  queue: Run[],
  { lanes, signal }: { lanes: number; signal: AbortSignal },
): Promise<Result[]> {
  await using opened = new AsyncDisposableStack();
  const template = await temporaryFolder(opened);
  await makeStackTemplate(template, signal);
  const ended = await Promise.allSettled(
    Array.from({ length: lanes }, async () => {
      await using opened = new AsyncDisposableStack();
      const dataDir = await temporaryFolder(opened);
      await copyStackTemplate(template, dataDir);
      const stack = opened.use(
        await startStack({ dataDir, functions: false, fsync: false, signal }),
      );
      const sql = postgres(stack.dbUrl, { max: 1 });
      opened.defer(() => sql.end());
      // Goes with it, whatever tests that are interrupted leave there.
      const temporary = `${dataDir}/tmp`;
      await Deno.mkdir(temporary);
      const results: Result[] = [];
      for (let run = queue.shift(); run !== undefined; run = queue.shift()) {
        await emptyTables(sql);
        const legacy = databaseUrls(stack.ports.db, LEGACY_DATABASE);
        const env = {
          TMPDIR: temporary,
          TEST_DATABASE_URL: stack.dbUrl,
          TEST_LEGACY_DATABASE_URL: legacy.url,
          TEST_PG_SHARE_DIR: `${stack.postgresFolder}/share/postgresql`,
          TEST_API_URL: stack.urls.api,
          TEST_STACK_TEMPLATE: template,
          TEST_FUNCTIONS_DENO: run.denoPath ?? Deno.execPath(),
        };
        const isBeside = lanes > 1;
        results.push(await runTests(run, { env, isBeside, signal }));
      }
      return results;
    }),
  );
  return resultsOf(ended);
}

interface StepOptions {
  readonly signal: AbortSignal;
  /** On top of the environment. */
  readonly env?: Record<string, string>;
  /** Other steps run at the same time: the output comes in one piece, at the end. */
  readonly isBeside?: boolean;
}

function runTests(
  { name, files, filter }: Run,
  options: StepOptions,
): Promise<Result> {
  const isInBrowser = files.some((file) => isWithin(file, BROWSER_FOLDER));
  return runDeno(name, {
    ...options,
    args: [
      ...["test", "--allow-all", "--no-check", "--cached-only"],
      ...isInBrowser ? [...BROWSER_OPTIONS, "--frozen"] : [],
      ...filter === undefined ? [] : ["--filter", filter],
      ...files,
    ],
    env: { ...NO_DOWNLOADS, ...options.env },
  });
}

/**
 * Runs `deno` with the arguments and shows what it prints. A step that prints no
 * count of tests is one check.
 */
async function runDeno(
  name: string,
  { args, signal, env = {}, isBeside = false }: StepOptions & {
    args: string[];
  },
): Promise<Result> {
  signal.throwIfAborted();
  const started = performance.now();
  console.log(`\n== ${name}${isBeside ? ": started" : ""}`);
  const colors = Deno.stdout.isTerminal() ? { FORCE_COLOR: "1" } : {};
  const { child, ended, kill } = spawnGroup({
    command: Deno.execPath(),
    args,
    options: {
      // Commands name themselves the same with and without npx.
      env: { ...colors, npm_command: "", ...env },
      stdout: "piped",
      stderr: "inherit",
    },
  });
  const limit = AbortSignal.timeout(RUN_LIMIT_MS);
  const either = AbortSignal.any([signal, limit]);
  const end = () => kill(limit.aborted ? "SIGKILL" : "SIGTERM");
  either.addEventListener("abort", end);

  let output = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (!isBeside) await Deno.stdout.write(new TextEncoder().encode(text));
    output += text;
  }
  const { success } = await ended;
  either.removeEventListener("abort", end);
  signal.throwIfAborted();
  if (isBeside) console.log(output.trimEnd());
  if (limit.aborted) {
    console.log(`FAILED: it was still running after ${RUN_LIMIT_MS / 1000} s`);
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`== ${name}: ${success ? "ok" : "FAILED"} (${seconds} s)`);
  const [, passed, failed] = stripVTControlCharacters(output).match(
    /.*^(?:ok|FAILED) \| (\d+) passed.* \| (\d+) failed/ms,
  ) ?? [0, +success, 0];
  // A run may fail without a failed test: a leak, or an error outside of one.
  return { passed: +passed!, failed: Math.max(+failed!, +!success) };
}

/**
 * Has the tests' files made in memory, if there is room: on a disk, a tenth of the
 * processor time goes into that. They take 1.5 GiB at most, and their processes
 * as much.
 */
async function useMemory(): Promise<void> {
  const folder = "/dev/shm";
  const mounts = await Deno.readTextFile("/proc/self/mounts").catch(() => "");
  // Postgres runs from there.
  const runsPrograms = new RegExp(` ${folder} (?!.*noexec)`).test(mounts);
  if (Deno.env.has("TMPDIR") || !runsPrograms) return;
  const { bavail, bsize } = await statfs(folder);
  const { available } = Deno.systemMemoryInfo();
  if (Math.min(Number(bavail) * Number(bsize), available / 2) > 4 * 2 ** 30) {
    Deno.env.set("TMPDIR", folder);
  }
}

/** Makes a folder that goes with what it is opened in. */
async function temporaryFolder(opened: AsyncDisposableStack): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-test-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  return folder;
}

/** Returns a path relative to the repository. */
function checkedPath(path: string): string {
  const absolute = resolve(REPOSITORY, path);
  if (!existsSync(absolute)) throw new UsageError(`${path} does not exist.`);
  const named = relative(REPOSITORY, absolute);
  return named === "supabase/tests" ? PGTAP : named;
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
