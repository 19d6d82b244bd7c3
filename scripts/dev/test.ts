/**
 * `deno task test`: the whole gate, on the real parts.
 *
 * Side by side: formatting, lint and types; unit tests; and what has to be
 * downloaded, then the tests that need a stack, in lanes. Integration tests have
 * the functions served by the Deno that Supabase's runtime is built on; the
 * catalogue of bad input also runs with this Deno. With arguments, only the named
 * test files or folders run.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { reportEnd } from "../common/cli.ts";
import { abortOnEnd } from "../common/abort_on_end.ts";
import { allRuns, UNIT_TESTS } from "./test/all_runs.ts";
import { parseTestArguments, type TestArguments } from "./test/arguments.ts";
import {
  downloadBrowser,
  downloadForTests,
  NO_DOWNLOADS,
} from "./test/downloads.ts";
import { BROWSER_ENTRY, BROWSER_OPTIONS } from "./test/browser_tests.ts";
import { writeFolderEntries } from "./test/folder_entries.ts";
import {
  allEnded,
  runInLanes,
  runTests,
  temporaryFolder,
} from "./test/lanes.ts";
import { memoryFolder } from "./test/memory_folder.ts";
import { namedRuns } from "./test/named_runs.ts";
import { runStep, type StepResult } from "./test/run_step.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

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
  if (needs.needsDownloads) await downloadForTests(signal);
  if (needs.needsBrowser) await downloadBrowser(signal);
  const results: StepResult[] = [];
  for (const run of withoutStack) results.push(await runTests(run, { signal }));
  return onStack.length === 0
    ? results
    : [...results, ...await runInLanes(onStack, { lanes: 1, signal })];
}

async function testAll(signal: AbortSignal): Promise<StepResult[]> {
  if (!Deno.env.has("TMPDIR")) {
    const folder = await memoryFolder();
    if (folder) Deno.env.set("TMPDIR", folder);
  }
  return await allEnded([
    checkSources(signal),
    testUnits(signal),
    testWithDownloads(signal),
  ]);
}

async function testUnits(signal: AbortSignal): Promise<StepResult> {
  await using opened = new AsyncDisposableStack();
  const folder = await temporaryFolder(opened);
  const entries = await Promise.all(
    UNIT_TESTS.files.map((parent) => writeFolderEntries(parent, folder)),
  );
  const run = { ...UNIT_TESTS, files: entries.flat() };
  return await runTests(run, { isBeside: true, signal });
}

async function checkSources(signal: AbortSignal): Promise<StepResult[]> {
  const options = { isBeside: true, signal };
  return [
    await runStep("formatting", { args: ["fmt", "--check"], ...options }),
    await runStep("lint", { args: ["lint"], ...options }),
    await runStep("types", { args: ["check"], ...options }),
  ];
}

async function testWithDownloads(signal: AbortSignal): Promise<StepResult[]> {
  const edgeDeno = await downloadForTests(signal);
  await downloadBrowser(signal);
  return [
    await runStep("types of the browser tests", {
      args: ["check", ...BROWSER_OPTIONS, "--frozen", BROWSER_ENTRY],
      env: NO_DOWNLOADS,
      isBeside: true,
      signal,
    }),
    ...await runInLanes(allRuns(edgeDeno), { lanes: LANES, signal }),
  ];
}
