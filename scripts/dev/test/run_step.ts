import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { spawnGroup } from "../../common/spawn_group.ts";

/** How many checks of a step passed and failed. */
export interface StepResult {
  readonly passed: number;
  readonly failed: number;
}

/** The last line that `deno test` prints, with or without steps and filters. */
const SUMMARY =
  /^(?:ok|FAILED) \| (\d+) passed(?: \([^)]*\))? \| (\d+) failed/gm;

/** What `deno test` prints above the tests of a file. */
const FILE = /^running \d+ tests? from (.+)$/m;

/** What it prints of a test that was neither ignored nor filtered out. */
const RAN = / \.\.\. (?:ok|FAILED) \(/;

/** What a test itself printed, and what it printed before or after. */
const OUTPUT_OF_TEST =
  /^-{7} (?:\S+ )?output -{7}$[^]*?^-{5} (?:\S+ )?output end -{5}$/gm;

/** What it prints in the middle of a slow test's line, once a minute. */
const STILL_RUNNING = /'.*' has been running for over \([^)]*\)\n/g;

/**
 * Runs `deno` with the arguments and shows what it prints. A step that prints
 * no count of tests is one check, which passes when it exits with 0. One of
 * which tests are wanted fails as well for each file or folder without any.
 *
 * @param name Shown above the step's output.
 * @param options.testsOf The files and folders whose tests have to run.
 * @param options.env On top of the environment.
 * @param options.signal Once aborted, it is ended.
 * @param options.isBeside Another step runs at the same time: what this one
 * prints comes in one piece, when it is done.
 */
export async function runStep(
  name: string,
  { args, signal, testsOf = [], env = {}, isBeside = false }: {
    args: string[];
    signal: AbortSignal;
    testsOf?: readonly string[];
    env?: Record<string, string>;
    isBeside?: boolean;
  },
): Promise<StepResult> {
  signal.throwIfAborted();
  const started = performance.now();
  console.log(`\n== ${name}${isBeside ? ": started" : ""}`);
  const { child, ended, kill } = spawnGroup({
    command: Deno.execPath(),
    args,
    options: {
      env: {
        ...(Deno.stdout.isTerminal() ? { FORCE_COLOR: "1" } : {}),
        npm_command: "", // commands name themselves the same with and without npx
        ...env,
      },
      stdout: "piped",
      stderr: "inherit",
    },
  });
  function end() {
    kill("SIGTERM");
  }
  signal.addEventListener("abort", end);

  let output = "";
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    if (!isBeside) await Deno.stdout.write(chunk);
    output += decoder.decode(chunk, { stream: true });
  }
  const { success } = await ended;
  signal.removeEventListener("abort", end);
  signal.throwIfAborted();
  if (isBeside) console.log(output.trimEnd());
  const plain = stripVTControlCharacters(output)
    .replaceAll(OUTPUT_OF_TEST, "")
    .replaceAll(STILL_RUNNING, "");
  const summary = [...plain.matchAll(SUMMARY)].at(-1);
  const [passed, failed] = summary === undefined
    ? [+(success && testsOf.length === 0), +!success]
    // A run may fail without a failed test: a leak, or an error outside of one.
    : [Number(summary[1]), Math.max(Number(summary[2]), +!success)];
  const untested = withoutTests(plain, testsOf);
  for (const path of untested) console.log(`FAILED: no test of ${path} ran`);

  const isOk = success && untested.length === 0;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`== ${name}: ${isOk ? "ok" : "FAILED"} (${seconds} s)`);
  return { passed, failed: failed + untested.length };
}

/** Returns the files and folders, relative to the current one, of which no test ran. */
function withoutTests(output: string, named: readonly string[]): string[] {
  const [, ...parts] = output.split(FILE);
  const ran = parts.filter((_, i) => i % 2 === 0 && RAN.test(parts[i + 1]!))
    .map((file) => relative("", file));
  return named.filter((name) => {
    const path = relative("", name);
    return !ran.some((file) =>
      path === "" || file === path || file.startsWith(`${path}/`)
    );
  });
}
