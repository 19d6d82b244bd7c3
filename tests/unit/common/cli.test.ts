import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type CommandLine,
  HelpRequest,
  parseCommandLine,
  reportEnd,
  UsageError,
} from "../../../scripts/common/cli.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";

const LONG =
  "where to find it if it is not in the usual place, which is a folder named after the date on which it was created";

const COMMAND = {
  usage: "example <word>",
  summary: "Shows what a table of options gives.",
  options: {
    "--mode MODE": "the mode (default: one)",
    "--api-key KEY": "the key",
    "--long-name-of-an-option X": LONG,
    "--apply": "do it",
  },
  details: "Exit code: 0.",
} as const satisfies CommandLine;

function parse(...args: string[]) {
  return parseCommandLine(args, COMMAND);
}

Deno.test("parseCommandLine() returns values and operands, in any order", () => {
  assertEquals(parse(), {
    values: {},
    operands: [],
  });
  const { values, operands } = parse(
    "a",
    "--mode=two",
    "b",
    "--apply",
    "--api-key=-x",
    "--mode",
    "three",
    "--",
    "--c",
  );
  assertEquals([values.mode, values.apply, values["api-key"]], [
    "three",
    true,
    "-x",
  ]);
  assertEquals(operands, ["a", "b", "--c"]);
});

for (
  const [args, message] of [
    [["--aply"], "Unknown option --aply. Did you mean --apply?"],
    [["--nothing-like-it"], "Unknown option --nothing-like-it."],
    [["-x"], "Unknown option -x."],
    [["--constructor"], "Unknown option --constructor."],
    [["--no-apply"], "Unknown option --no-apply."],
    [["--api-key"], "--api-key needs a value: --api-key=KEY."],
    [["--mode", "--apply"], "--mode needs a value: --mode=MODE."],
    [["--apply=yes"], "--apply takes no value."],
    [
      ["--apy-key=hunter2"],
      "Unknown option --apy-key. Did you mean --api-key?",
    ],
  ] as const
) {
  Deno.test(`parseCommandLine() refuses ${args.join(" ")}`, () => {
    const error = assertThrows(() => parse(...args), UsageError);
    assertEquals(error.message, message);
  });
}

Deno.test("parseCommandLine() refuses operands that a command does not take", () => {
  const command = { ...COMMAND, usage: "example" };
  const error = assertThrows(
    () => parseCommandLine(["hunter2"], command),
    UsageError,
    "takes options only",
  );
  assertEquals(error.message.includes("hunter2"), false);
});

Deno.test("--help and -h list the options within 80 columns", () => {
  for (const help of ["--help", "-h"]) {
    assertEquals(
      assertThrows(() => parse(help), HelpRequest).message,
      `Shows what a table of options gives.

Usage: deno task example <word> [options]

Options:
  --mode MODE          the mode (default: one)
  --api-key KEY        the key
  --long-name-of-an-option X
                       where to find it if it is not in the usual place, which
                       is a folder named after the date on which it was created
  --apply              do it
  --help               show this text

Exit code: 0.`,
    );
  }
});

Deno.test("reportEnd() prints help on standard output, and errors in one line", () => {
  const printed = { out: [] as string[], err: [] as string[] };
  const ends = {
    out: (line: string) => void printed.out.push(line),
    err: (line: string) => void printed.err.push(line),
  };
  assertEquals(reportEnd(new HelpRequest("a\n\nb"), ends), 0);
  assertEquals(reportEnd(new UsageError("Wrong."), ends), 2);
  assertEquals(reportEnd(new Error("Broken"), ends), 1);
  assertEquals(reportEnd(new Error("Unreachable"), { ...ends, failed: 3 }), 3);
  assertEquals(printed, {
    out: ["a", "", "b"],
    err: ["Wrong. See --help.", "Broken", "Unreachable"],
  });
});

Deno.test("every command's help fits into 80 columns and exits with 0, a wrong option with 2", async () => {
  const scripts = new URL("../../../scripts/", import.meta.url);
  await Promise.all(
    [
      "start",
      "reset",
      "trigger",
      "token",
      "doctor",
      "import",
      "reconcile",
      "dev/test",
    ].map(async (name) => {
      const run = (option: string) =>
        createCommand(Deno.execPath(), {
          args: [
            ...["run", "--quiet", "-A", "--no-check"],
            new URL(`${name}.ts`, scripts).href,
            option,
          ],
        }).output();
      const [help, wrong] = [await run("--help"), await run("--hlep")];
      const text = new TextDecoder().decode(help.stdout);
      assertEquals([name, help.code, wrong.code], [name, 0, 2]);
      for (const line of text.split("\n")) assert(line.length <= 80, line);
      assertEquals(
        [new TextDecoder().decode(wrong.stderr), wrong.stdout.length],
        ["Unknown option --hlep. Did you mean --help? See --help.\n", 0],
      );
    }),
  );
});
