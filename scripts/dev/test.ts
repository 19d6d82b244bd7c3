/**
 * `deno task test`: the whole gate, on the real parts.
 *
 * Formatting, lint and types; unit tests; what has to be downloaded; then the
 * tests that need a stack, in lanes side by side, each on a stack of its own on
 * free ports. What keeps the processor busy begins beside what waits for
 * processes and time limits; whichever lane is done takes the next. The
 * integration tests run twice, the second time with the functions served by the
 * Deno that Supabase's runtime is built on. Some run with a function of the last
 * release beside the other one of this version. With arguments, only the named
 * test files or folders run.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { reportEnd } from "../common/cli.ts";
import { abortOnEnd } from "../common/abort_on_end.ts";
import { LEGACY_DEFAULT_PRIVILEGES_SQL } from "../local_stack/roles.ts";
import { startStack } from "../local_stack/start_stack.ts";
import { parseTestArguments, type TestArguments } from "./test/arguments.ts";
import {
  downloadBrowser,
  downloadForTests,
  EDGE_DENO_VERSION,
  NO_DOWNLOADS,
} from "./test/downloads.ts";
import { BROWSER_ENTRY, BROWSER_OPTIONS } from "./test/browser_tests.ts";
import { BROWSER_TESTS, namedRuns, type Run } from "./test/named_runs.ts";
import { runStep, type StepResult } from "./test/run_step.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** SQL is first on a stack that is new: it counts on empty tables. */
const SQL_TESTS = ["tests/pgtap.test.ts", "tests/property"];
const FAULT_TESTS = ["tests/fuzz", "tests/faults"];
const WAITING_TESTS = ["tests/integration", "tests/catalogue"];
const DEPLOYMENT_TESTS = ["tests/deploy", "tests/recipes", "tests/docs"];
const RELEASED_TESTS = ["tests/released"];
const START_TESTS = ["tests/start"];
const PROVIDER_TESTS = ["tests/stripe_sync"];
/** By the function that is served as the last release had it. */
const BESIDE_RELEASED = {
  "billing-webhook": [
    "tests/integration/failures.test.ts",
    "tests/integration/triage_retry.test.ts",
    "tests/integration/worker_delivery.test.ts",
  ],
  "billing-worker": [
    "tests/integration/triage_retry.test.ts",
    "tests/integration/worker_crash.test.ts",
    "tests/integration/worker_delivery.test.ts",
  ],
};

const INTERRUPTED = 130;
/** For two cores: one lane keeps a core busy, two others mostly wait. */
const LANES = 3;

if (import.meta.main) {
  const ending = new AbortController();
  await abortOnEnd(ending, Deno.env.toObject());
  try {
    const args = parseTestArguments(Deno.args, { root: ROOT });
    const results = args.paths.length > 0
      ? await testNamed(args, ending.signal)
      : await testAll(ending.signal);
    Deno.exit(report(results));
  } catch (error) {
    if (ending.signal.aborted) {
      console.log("\nInterrupted");
      Deno.exit(INTERRUPTED);
    }
    Deno.exit(reportEnd(error, { err: console.error }));
  }
}

/** Prints the sum, and returns the exit code. */
function report(results: StepResult[]): number {
  const passed = results.reduce((sum, result) => sum + result.passed, 0);
  const failed = results.reduce((sum, result) => sum + result.failed, 0);
  console.log(`\n${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

async function testNamed(
  args: TestArguments,
  signal: AbortSignal,
): Promise<StepResult[]> {
  const { withoutStack, onStack, ...needs } = namedRuns(args);
  if (needs.needsDownloads || Deno.env.has("TEST_RELEASED_FUNCTION")) {
    await downloadForTests(signal);
  }
  if (needs.needsBrowser) await downloadBrowser(signal);
  const results: StepResult[] = [];
  for (const run of withoutStack) results.push(await runTests(run, { signal }));
  return onStack.length === 0
    ? results
    : [...results, ...await testOnStack([...onStack], { signal })];
}

async function testAll(signal: AbortSignal): Promise<StepResult[]> {
  const beforeDownloads = [
    await runStep("formatting", { args: ["fmt", "--check"], signal }),
    await runStep("lint", { args: ["lint"], signal }),
    await runStep("types", { args: ["check"], signal }),
    await runTests({ name: "unit tests", files: ["tests/unit"] }, { signal }),
  ];
  const edgeDeno = await downloadForTests(signal);
  await downloadBrowser(signal);
  return [
    ...beforeDownloads,
    await runStep("types of the browser tests", {
      args: ["check", ...BROWSER_OPTIONS, "--frozen", BROWSER_ENTRY],
      env: NO_DOWNLOADS,
      signal,
    }),
    ...await testInLanes(edgeDeno, signal),
  ];
}

async function testInLanes(
  edgeDeno: string,
  signal: AbortSignal,
): Promise<StepResult[]> {
  const queue: Run[] = [
    { name: "SQL and properties", files: SQL_TESTS },
    { name: "integration and catalogue", files: WAITING_TESTS },
    {
      name: `integration and catalogue, served by Deno ${EDGE_DENO_VERSION}`,
      files: WAITING_TESTS,
      denoPath: edgeDeno,
    },
    { name: "fuzzing and faults", files: FAULT_TESTS },
    { name: "deployment, recipes and pages", files: DEPLOYMENT_TESTS },
    { name: "import and reconcile", files: PROVIDER_TESTS },
    { name: "what was released", files: RELEASED_TESTS },
    { name: "start at a terminal", files: START_TESTS },
    ...Object.entries(BESIDE_RELEASED).map(([released, files]) => ({
      name: `integration, with ${released} of the last release`,
      files,
      released,
    })),
    BROWSER_TESTS,
  ];
  const lanes = Array.from(
    { length: LANES },
    () => testOnStack(queue, { signal, isBeside: true }),
  );
  // Each has to end, and to clean up, even if another fails.
  await Promise.allSettled(lanes);
  return (await Promise.all(lanes)).flat();
}

/** Takes what is to run out of a queue, and runs it against a stack of its own. */
async function testOnStack(
  queue: Run[],
  { signal, isBeside = false }: { signal: AbortSignal; isBeside?: boolean },
): Promise<StepResult[]> {
  await using opened = new AsyncDisposableStack();
  const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-test-" });
  opened.defer(() => Deno.remove(dataDir, { recursive: true }));
  const stack = opened.use(
    await startStack({
      dataDir,
      functions: false,
      fsync: false,
      signal,
      onProgress: (text) => console.log(`stack: ${text}`),
    }),
  );
  // Goes with it, whatever tests that are interrupted leave there.
  const temporary = `${dataDir}/tmp`;
  await Deno.mkdir(temporary);
  const legacy = await stack.createDatabase("legacy_default_privileges", {
    sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL,
  });
  const results: StepResult[] = [];
  for (let run = queue.shift(); run !== undefined; run = queue.shift()) {
    results.push(
      await runTests(run, {
        isBeside,
        signal,
        env: {
          TMPDIR: temporary,
          TEST_DATABASE_URL: stack.dbUrl,
          TEST_LEGACY_DATABASE_URL: legacy.url,
          TEST_PG_SHARE_DIR: `${stack.postgresFolder}/share/postgresql`,
          TEST_API_URL: stack.urls.api,
          TEST_FUNCTIONS_DENO: run.denoPath ?? Deno.execPath(),
          ...(run.released && { TEST_RELEASED_FUNCTION: run.released }),
        },
      }),
    );
  }
  return results;
}

function runTests(
  { name, files, filter, options = [] }: Run,
  { signal, env = {}, isBeside = false }: {
    signal: AbortSignal;
    env?: Record<string, string>;
    isBeside?: boolean;
  },
): Promise<StepResult> {
  return runStep(name, {
    isBeside,
    signal,
    testsOf: files,
    args: [
      ...["test", "--allow-all", "--no-check", "--cached-only", ...options],
      ...(filter === undefined ? [] : ["--filter", filter]),
      ...files,
    ],
    env: { ...NO_DOWNLOADS, ...env },
  });
}
