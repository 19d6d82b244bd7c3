import {
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { relative } from "node:path";
import deno from "../../../deno.json" with { type: "json" };
import {
  type CommandLine,
  commandLine,
  printable,
  UsageError,
} from "../../../scripts/common/cli.ts";
import { closest } from "../../../scripts/common/closest.mjs";
import { LOCAL_PROJECT_URL } from "../../../scripts/common/loopback.ts";
import {
  givenProjectUrl,
  projectKey,
  readProject,
  readSecret,
} from "../../../scripts/common/option_values.ts";
import { restHeaders } from "../../../scripts/common/project_api.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { runCommand } from "../../support/run_script.ts";

const COMMAND = {
  usage: "example <word>",
  summary: "Shows what a table of options gives.",
  options: {
    "--mode MODE": "the mode (default: one)",
    "--api-key KEY": "the key",
    "--apply": "do it",
  },
  details: "Exit code: 0.",
} as const satisfies CommandLine;

function parse(line: string) {
  return commandLine(COMMAND)(line.split(" ").filter(Boolean));
}

Deno.test("commandLine() returns values and operands, in any order", () => {
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
  "-x": "Unknown option -x.",
  "--constructor": "Unknown option --constructor.",
  "--api-key": "--api-key needs a value: --api-key=KEY.",
  "--mode --apply": "--mode needs a value: --mode=MODE.",
  "--apply=yes": "--apply takes no value.",
  "--help=yes": "--help takes no value.",
  "--apy-key=hunter2": "Unknown option --apy-key. Did you mean --api-key?",
};

Deno.test("commandLine() says what is wrong, without a value", () => {
  for (const [line, message] of Object.entries(REFUSED)) {
    assertEquals(assertThrows(() => parse(line), UsageError).message, message);
  }
  assertEquals(closest("craeted", ["created", "updated"]), "created");
  // The closest option, not the first.
  const command = { ...COMMAND, options: { "--curl": "", "--url": "" } };
  const read = (word: string) => () => commandLine(command)([word]);
  assertThrows(read("--urls"), UsageError, "Did you mean --url?");

  const optionsOnly = { ...COMMAND, usage: "example" };
  const { message } = assertThrows(
    () => commandLine(optionsOnly)(["hunter2"]),
    UsageError,
  );
  assertEquals(message, "This command takes options only.");
});

const TASKS = Object.entries(deno.tasks).map(([task, { command }]) => {
  const [, path = ""] = / (\S+)\.ts$/.exec(command) ?? [];
  return [task, relative("scripts", path)] as const;
});

const run = (name: string, word: string) =>
  runCommand(name, [word], { npm_command: "exec" });

Deno.test("each task prints its help in 80 columns, and does nothing else", async () => {
  for (const [task, name] of TASKS) {
    const { code, out, err } = await run(name, "-h");
    assertStringIncludes(
      out,
      `Usage: ${`npx -y deno@${Deno.version.deno} task ${task}`}`,
    );
    assertMatch(out, /\n {2}--help +show this text\n/);
    assertEquals(out.split("\n").filter(({ length }) => length > 80), []);
    assertEquals([code, err], [0, ""], task);
  }
  const err = "Unknown option --hlep. Did you mean --help? See --help.\n";
  assertEquals(await run("token", "--hlep"), { code: 2, out: "", err });
});

Deno.test("token refuses what is no user, and is for the local stack only", async () => {
  const { code, err } = await run("token", "--user=service_role");
  assertEquals([code, err.includes("--user takes a UUID")], [2, true]);

  const user = "--user=11111111-1111-4111-8111-111111111111";
  assertEquals((await run("token", user)).code, 1);
});

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
  ["https://:hunter2@abc.supabase.co", "", Error],
  ["https://abc.supabase.co?x=1", "", Error],
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

Deno.test("readProject() and projectKey() give each project its own secrets", () => {
  const stack = {
    apiUrl: "http://127.0.0.1:5",
    dbUrl: "postgresql://local",
  };
  const own = { SUPABASE_SECRET_KEY: "sb_secret_1", SUPABASE_DB_URL: "x" };
  const HOSTED = "https://abc.supabase.co";
  const OTHER = "http://127.0.0.1:7";
  for (
    const [option, SUPABASE_URL, local, projectUrl, key, db] of [
      [undefined, "", undefined, LOCAL_PROJECT_URL, LOCAL_SECRET_KEY, ""],
      [undefined, "", stack, stack.apiUrl, LOCAL_SECRET_KEY, stack.dbUrl],
      [undefined, `${HOSTED}/`, stack, HOSTED, "sb_secret_1", "x"],
      [OTHER, "", stack, OTHER, "sb_secret_1", "x"],
    ] as const
  ) {
    const warned: string[] = [];
    const warn = (text: string) => warned.push(text);
    const env = { ...own, SUPABASE_URL };
    const found = readProject(option, { env, warn, local });

    assertEquals(found.projectUrl, projectUrl);
    const { SUPABASE_SECRET_KEY = "", SUPABASE_DB_URL } = found.secrets;
    assertEquals([SUPABASE_SECRET_KEY, SUPABASE_DB_URL], [key, db]);
    assertEquals(warned.length, key === "sb_secret_1" ? 0 : 2);
    readProject(option, {
      env: { ...found.secrets, SUPABASE_URL },
      warn,
      local,
    });
    assertEquals(warned.length, key === "sb_secret_1" ? 0 : 2);
  }

  assertEquals(projectKey(stack.apiUrl, {}), LOCAL_SECRET_KEY);
  for (
    const [url, env] of [
      [HOSTED, {}],
      ["https://localhost.example.com", {}],
      [stack.apiUrl, { SUPABASE_SECRET_KEY: "sb_publishable_1" }],
    ] as const
  ) {
    const refused = () => projectKey(url, env);
    const { message } = assertThrows(refused, UsageError, "needs SUPABASE_SEC");
    assertEquals(message.includes("publishable_1"), false);
  }
});

Deno.test("readSecret() refuses a line break without repeating the secret", () => {
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

Deno.test("printable() replaces only what a terminal obeys", () => {
  const obeyed = "\x1b[2J\r\x7f\x9b\u061c\u200f\u2028\u202e\u2066\u2069\ufeff";
  assertEquals(
    printable(obeyed),
    "\\u001b[2J\\u000d\\u007f\\u009b\\u061c\\u200f\\u2028\\u202e\\u2066\\u2069\\ufeff",
  );

  for (let code = 0; code < 0x3000; code++) {
    const text = printable(String.fromCharCode(code));
    assertEquals(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u.test(text), false);
  }
  for (const text of ["", "a b", "Größe 日本語 🎉", 'C:\\u "x"']) {
    assertEquals(printable(text), text);
  }
  // A JSON document stays the same one.
  assertEquals(JSON.parse(printable(JSON.stringify(obeyed))), obeyed);
});
