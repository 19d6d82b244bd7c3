import { spawnGuarded } from "../stack/spawn_guarded.ts";

/** How many checks of a step passed and failed. */
export interface StepResult {
  readonly passed: number;
  readonly failed: number;
  /** The names of the tests that passed, where the step ran tests. */
  readonly passedTests: readonly string[];
}

/** The last line that `deno test` prints, with or without steps and filters. */
const SUMMARY =
  /^(?:ok|FAILED) \| (\d+) passed(?: \([^)]*\))? \| (\d+) failed/m;

/** The last line of a test that passed, whatever it printed before. */
const PASSED_TEST = /^(.+) \.\.\. ok \(/gm;

// deno-lint-ignore no-control-regex -- the escapes that colour a terminal
const COLOURS = /\x1b\[[0-9;]*m/g;

/**
 * Runs `deno` with the arguments and shows what it prints. A step that prints
 * no count of tests is one check, which passes when it exits with 0.
 *
 * @param name Shown above the step's output.
 * @param options.env On top of the environment.
 * @param options.signal Once aborted, it is ended.
 * @param options.isBeside Another step runs at the same time: what this one
 * prints comes in one piece, when it is done.
 */
export async function runStep(
  name: string,
  { args, signal, env = {}, isBeside = false }: {
    args: string[];
    signal: AbortSignal;
    env?: Record<string, string>;
    isBeside?: boolean;
  },
): Promise<StepResult> {
  signal.throwIfAborted();
  const started = performance.now();
  console.log(`\n== ${name}${isBeside ? ": started" : ""}`);
  const { child, ended } = spawnGuarded({
    command: Deno.execPath(),
    args,
    stopSignal: "SIGTERM",
    options: {
      env: {
        ...(Deno.stdout.isTerminal() ? { FORCE_COLOR: "1" } : {}),
        ...env,
      },
      stdout: "piped",
      stderr: "inherit",
    },
  });
  function end() {
    child.kill("SIGTERM");
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
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`== ${name}: ${success ? "ok" : "FAILED"} (${seconds} s)`);

  const plain = output.replaceAll(COLOURS, "");
  const summary = plain.match(SUMMARY);
  if (summary === null) {
    return { passed: +success, failed: +!success, passedTests: [] };
  }
  const failed = Number(summary[2]);
  return {
    passed: Number(summary[1]),
    // A run may fail without a failed test: a leak, or an error outside of one.
    failed: failed === 0 && !success ? 1 : failed,
    passedTests: [...plain.matchAll(PASSED_TEST)].map(([, name = ""]) => name),
  };
}
