import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { basename } from "node:path";
import {
  type CommandLine,
  HelpRequest,
  parseCommandLine,
  UsageError,
} from "../../../scripts/common/cli.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { COMMAND_START } from "../../../scripts/common/how_started.ts";
import {
  givenProjectUrl,
  readSecret,
} from "../../../scripts/common/option_values.ts";
import { printable, wrap } from "../../../scripts/common/print.ts";
import { restHeaders } from "../../../scripts/common/requests.ts";

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

function parse(line: string) {
  return parseCommandLine(line.split(" ").filter(Boolean), COMMAND);
}

Deno.test("parseCommandLine() returns values and operands, in any order", () => {
  assertEquals({ ...parse("").values }, {});
  const { values, operands } = parse(
    "a --mode=two b --apply --api-key=-x --mode three -- --c",
  );
  assertEquals([values.mode, values.apply, values["api-key"], operands], [
    "three",
    true,
    "-x",
    ["a", "b", "--c"],
  ]);
});

const REFUSED = {
  "--aply": "Unknown option --aply. Did you mean --apply?",
  "--nothing-like-it": "Unknown option --nothing-like-it.",
  "-x": "Unknown option -x.",
  "--constructor": "Unknown option --constructor.",
  "--no-apply": "Unknown option --no-apply.",
  "--api-key": "--api-key needs a value: --api-key=KEY.",
  "--mode --apply": "--mode needs a value: --mode=MODE.",
  "--apply=yes": "--apply takes no value.",
  "--help=yes": "--help takes no value.",
  "--apy-key=hunter2": "Unknown option --apy-key. Did you mean --api-key?",
};

Deno.test("parseCommandLine() says what is wrong, without a value", () => {
  for (const [line, message] of Object.entries(REFUSED)) {
    assertEquals(assertThrows(() => parse(line), UsageError).message, message);
  }
  // The closest option, not the first.
  const command = { ...COMMAND, options: { "--curl": "", "--url": "" } };
  const read = (word: string) => () => parseCommandLine([word], command);
  assertThrows(read("--urls"), UsageError, "Did you mean --url?");
  const optionsOnly = { ...COMMAND, usage: "example" };
  const { message } = assertThrows(
    () => parseCommandLine(["hunter2"], optionsOnly),
    UsageError,
  );
  assertEquals(message, "This command takes options only.");
});

Deno.test("--help and -h list the options within 80 columns", () => {
  for (const help of ["--help", "-h"]) {
    const { message } = assertThrows(() => parse(help), HelpRequest);
    assertEquals(
      message.replace(COMMAND_START, "deno task"),
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

const NAMES = ["start", "reset", "trigger", "token", "doctor", "console"]
  .concat("import", "reconcile", "add", "dev/test");

for (const name of NAMES) {
  Deno.test(`${name} prints its help in 80 columns, and refuses a wrong option`, async () => {
    const script = import.meta.resolve(`../../../scripts/${name}.ts`);
    async function run(option: string) {
      const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
        args: ["run", "--quiet", "-A", "--no-check", script, option],
        // As with npx.
        env: { npm_command: "exec" },
      }).output();
      const [out, err] = [stdout, stderr]
        .map((bytes) => new TextDecoder().decode(bytes));
      return { code, out: out!, err };
    }
    const { code, out } = await run("--help");
    const typed = `npx -y deno@${Deno.version.deno} task ${basename(name)}`;
    assertEquals([code, out.includes(`Usage: ${typed}`)], [0, true]);
    assertEquals(out.split("\n").filter((line) => line.length > 80), []);
    assertEquals(await run("--hlep"), {
      code: 2,
      out: "",
      err: "Unknown option --hlep. Did you mean --help? See --help.\n",
    });
  });
}

const PROJECTS = [
  ["https://abc.supabase.co//", "http://x", "https://abc.supabase.co"],
  // As pasted.
  [undefined, " https://abc.supabase.co/\n", "https://abc.supabase.co"],
  ["https://own.example/api/", "", "https://own.example/api"],
  [undefined, "http://127.0.0.1:54321/", "http://127.0.0.1:54321"],
  [undefined, "", undefined],
  ["", "https://abc.supabase.co", Error],
  ["http://abc.supabase.co", "", Error],
  ["http://127.0.0.1.evil.example", "", Error],
  ["https://hunter2@abc.supabase.co", "", Error],
  ["https://:hunter2@abc.supabase.co", "", Error],
  ["https://abc.supabase.co?x=1", "", Error],
  ["https://abc.supabase.co/#f", "", Error],
  ["https://abc.supabase.co/functions/v1/billing-webhook", "", Error],
] as const;

Deno.test("givenProjectUrl() reads --project-url, else SUPABASE_URL", () => {
  for (const [option, SUPABASE_URL, url] of PROJECTS) {
    const read = () => givenProjectUrl(option, { SUPABASE_URL });
    if (url === Error) {
      assertEquals(
        assertThrows(read, UsageError).message,
        "--project-url takes a URL such as https://abc.supabase.co, without a user name or password. http is allowed on this machine only.",
      );
    } else assertEquals<unknown>(read(), url, option);
  }
});

Deno.test("readSecret() refuses a line break inside a secret, and does not repeat it", () => {
  const read = (KEY: string) => readSecret("KEY", { KEY });
  assertEquals([read(""), read("one\n")], [undefined, "one\n"]);
  for (const key of ["hunter2\nhunter3", "hunter2\0"]) {
    assertEquals(
      assertThrows(() => read(key), UsageError).message,
      "KEY contains a line break or a NUL character: copy it again, as one line.",
    );
  }
});

Deno.test("restHeaders() sends a key of the old kind as a token too", () => {
  assertEquals(restHeaders("sb_secret_x"), { apikey: "sb_secret_x" });
  const old = { apikey: "ey.x.y", authorization: "Bearer ey.x.y" };
  assertEquals(restHeaders("ey.x.y"), old);
});

/** Written by hand, so that a range that the code forgets is missed here. */
function isHarmless(text: string): boolean {
  return [...text].every((character) => {
    const code = character.codePointAt(0) ?? 0;
    return code >= 0x20 && !(code >= 0x7f && code <= 0x9f) &&
      !/\p{Bidi_Control}|\p{Zl}|\p{Zp}/u.test(character);
  });
}

Deno.test("printable() leaves nothing that a terminal obeys, and other text as it is", () => {
  assertEquals(printable("\x1b[2J\r\u202e"), "\\u001b[2J\\u000d\\u202e");
  for (let code = 0; code < 0x3000; code++) {
    assertEquals(isHarmless(printable(String.fromCharCode(code))), true);
  }
  for (const text of ["", "a b", "Größe 日本語 🎉", 'C:\\u "x"']) {
    assertEquals(printable(text), text);
  }
  // A JSON document stays the same one.
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" })), (value) => {
      const text = printable(JSON.stringify(value));
      assertEquals([isHarmless(text), JSON.parse(text)], [true, value]);
    }),
  );
});

Deno.test("wrap() breaks at words, and at no fewer than 16 columns", () => {
  const long = "https://example.com/path";
  assertEquals(wrap("", 16), []);
  assertEquals(wrap("one two three four", -5), ["one two three", "four"]);
  assertEquals(wrap(`see ${long} now`, 16), ["see", long, "now"]);
  assertEquals(wrap("just_as_long_as_ a", 16), ["just_as_long_as_", "a"]);
});
