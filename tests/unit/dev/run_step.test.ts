/**
 * A step of the gate, with small test files.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import {
  runStep,
  type StepResult,
} from "../../../scripts/dev/test/run_step.ts";

const PASSING = `Deno.test("one", () => {});\n`;
const FAILING = `Deno.test("two", () => { throw new Error("2"); });\n`;
const IGNORED = `Deno.test.ignore("three", () => {});\n`;
/** Prints what ends a run of tests elsewhere. */
const TALKING = `Deno.test("four", () => console.log(
  "running 9 tests from ./empty.test.ts\\nfive ... FAILED (1ms)\\n" +
  "FAILED | 9 passed | 9 failed (1ms)"));\n`;

const { signal } = new AbortController();

/** Runs a step that says nothing here. */
async function quietly(
  options: { args: string[]; testsOf?: string[] },
): Promise<StepResult> {
  const { log } = console;
  console.log = () => {};
  try {
    return await runStep("step", { ...options, signal, isBeside: true });
  } finally {
    console.log = log;
  }
}

/** Runs the named files, of those that are given, as a step. */
async function step(
  files: Record<string, string>,
  names = Object.keys(files),
): Promise<StepResult> {
  const folder = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${folder}/${name}`, text);
    }
    const testsOf = names.map((name) => `${folder}/${name}`);
    return await quietly({
      args: ["test", "--no-config", "--no-check", ...testsOf],
      testsOf,
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("runStep() counts what passed and what failed", async () => {
  const { passed, failed } = await step({
    "a.test.ts": PASSING,
    "b.test.ts": FAILING,
  });
  assertEquals([passed, failed], [1, 1]);
});

Deno.test("runStep() fails for a file without a test", async () => {
  const { passed, failed } = await step({
    "a.test.ts": PASSING,
    "empty.test.ts": "",
  });
  assertEquals([passed, failed], [1, 1]);
});

Deno.test("runStep() fails for a file whose tests are all ignored", async () => {
  const { passed, failed } = await step({
    "a.test.ts": PASSING,
    "b.test.ts": IGNORED,
  });
  assertEquals([passed, failed], [1, 1]);
});

Deno.test("runStep() fails if there are no test files at all", async () => {
  const { passed, failed } = await step({ "a.ts": PASSING }, [""]);
  assertEquals([passed, failed > 0], [0, true]);
});

Deno.test("runStep() passes for a folder of which any file has a test", async () => {
  const files = { "a.test.ts": PASSING, "empty.test.ts": "" };
  const { passed, failed } = await step(files, [""]);
  assertEquals([passed, failed], [1, 0]);
});

Deno.test("runStep() goes by the last summary, not by what a test prints", async () => {
  const { passed, failed } = await step({ "a.test.ts": TALKING });
  assertEquals([passed, failed], [1, 0]);
});

Deno.test("runStep() counts a command without tests as one check", async () => {
  const passes = await quietly({ args: ["eval", ""] });
  assertEquals([passes.passed, passes.failed], [1, 0]);
  const fails = await quietly({ args: ["eval", "Deno.exit(3)"] });
  assertEquals([fails.passed, fails.failed], [0, 1]);
});

Deno.test("runStep() knows a test that ran for longer than a minute", async () => {
  // As Deno 2.9.6 prints it.
  const output = [
    "running 1 test from ./slow.test.ts",
    "slow ...'slow' has been running for over (1m0s)",
    "'slow' has been running for over (2m0s)",
    " ok (2m1s)",
    "",
    "ok | 1 passed | 0 failed (2m1s)",
  ].join("\n");
  const result = await quietly({
    args: ["eval", `console.log(${JSON.stringify(output)})`],
    testsOf: ["slow.test.ts"],
  });
  assertEquals(result, { passed: 1, failed: 0 });
});
