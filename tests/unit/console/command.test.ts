import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { UsageError } from "../../../scripts/common/cli.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { spawnGroup } from "../../../scripts/common/spawn_group.ts";
import { parseConsoleArguments } from "../../../scripts/console/arguments.ts";
import { leftOf, processTree } from "../../support/process_tree.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/billing-webhook/local_stack.ts";

const SCRIPT = new URL("../../../scripts/console.ts", import.meta.url).href;

const LOCAL = {
  apiUrl: "http://127.0.0.1:12345",
  webhookUrl: "http://127.0.0.1:12345/functions/v1/billing-webhook",
  dbUrl: "postgresql://postgres@127.0.0.1:12346/postgres",
  secretKey: LOCAL_SECRET_KEY,
};

/** Starts the command; without a terminal it opens no browser. */
function start(...args: string[]): Deno.ChildProcess {
  return createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", SCRIPT, ...args],
    env: {
      SUPABASE_URL: "http://127.0.0.1:54321",
      SUPABASE_SECRET_KEY: "sb_secret_of_this_test",
    },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Reads what it prints until it is ready. */
async function readLink(child: Deno.ChildProcess): Promise<string> {
  let said = "";
  for await (
    const text of child.stdout.pipeThrough(new TextDecoderStream())
  ) {
    said += text;
    if (said.includes("Stop with Ctrl-C")) break;
  }
  return said;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  Deno.test(`console prints a link, and ends with 0 on ${signal}`, async () => {
    const child = start("--port=0");
    const errors = new Response(child.stderr).text();
    const said = await readLink(child);
    const link = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}/.exec(said)?.[0];
    assert(link !== undefined, said);
    assertStringIncludes(said, "http://127.0.0.1:54321");
    assertEquals(said.includes("sb_secret"), false);
    const first = await fetch(link, { redirect: "manual" });
    assertEquals([first.status, await first.text()], [303, ""]);
    child.kill(signal);
    assertEquals((await child.status).code, 0);
    assertEquals(await errors, "");
  });
}

Deno.test("console ends if deno task is killed", async () => {
  const { child, ended, kill } = spawnGroup({
    command: Deno.execPath(),
    args: ["task", "console", "--port=0"],
    options: { stdout: "piped", stderr: "null" },
  });
  await readLink(child);
  const tree = await processTree(child.pid);
  assert(tree.size > 1, "deno task and the console");
  child.kill("SIGKILL");
  await ended;
  const left = await leftOf(tree);
  kill("SIGKILL");
  assertEquals(left, []);
});

Deno.test("console says so if its port is in use", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const output = await start(`--port=${listener.addr.port}`).output();
  assertEquals(output.code, 1);
  assertMatch(
    new TextDecoder().decode(output.stderr),
    /^Port \d+ is in use\. .*--port/,
  );
});

Deno.test("console listens on 127.0.0.1 alone", async () => {
  const child = start("--port=0");
  const errors = child.stderr.cancel();
  const { port } = new URL(/http:\S+token\S+/.exec(await readLink(child))![0]);
  const others = Deno.networkInterfaces()
    .filter(({ address }) => !/^(127\.|::1$|fe80)/.test(address));
  for (const { address } of [...others, { address: "127.0.0.2" }]) {
    const connection = await Deno.connect({
      hostname: address,
      port: Number(port),
    }).catch(() => undefined);
    connection?.close();
    assertEquals(connection, undefined, address);
  }
  child.kill("SIGTERM");
  await Promise.all([child.status, errors]);
});

Deno.test("console takes a wrong command line for what it is", async () => {
  const output = await start("--prot=1").output();
  assertEquals(output.code, 2);
  assertStringIncludes(
    new TextDecoder().decode(output.stderr),
    "Did you mean --port?",
  );
});

Deno.test("parseConsoleArguments() takes the local stack by default", () => {
  assertEquals(parseConsoleArguments([], { env: {} }), {
    projectUrl: "http://127.0.0.1:54321",
    secretKey: LOCAL_SECRET_KEY,
    port: 54340,
    opensBrowser: true,
  });
});

Deno.test("parseConsoleArguments() takes the local stack that runs, on whatever port", () => {
  const { projectUrl, secretKey } = parseConsoleArguments([], {
    env: {},
    local: LOCAL,
  });
  assertEquals([projectUrl, secretKey], [LOCAL.apiUrl, LOCAL_SECRET_KEY]);
});

Deno.test("parseConsoleArguments() keeps the key of a hosted project from the local stack", () => {
  const env = { SUPABASE_SECRET_KEY: "sb_secret_of_a_hosted_project" };
  for (const local of [LOCAL, undefined]) {
    const { secretKey } = parseConsoleArguments([], { env, local });
    assertEquals(secretKey, LOCAL_SECRET_KEY);
  }
  // supabase start may have another key.
  const given = parseConsoleArguments([
    "--project-url=http://127.0.0.1:54321",
  ], { env, local: LOCAL });
  assertEquals(given.secretKey, "sb_secret_of_a_hosted_project");
});

Deno.test("parseConsoleArguments() reads a hosted project from the environment", () => {
  assertEquals(
    parseConsoleArguments(["--no-open", "--port", "5"], {
      env: {
        SUPABASE_URL: "https://abc.supabase.co/",
        SUPABASE_SECRET_KEY: "sb_secret_x",
      },
      local: LOCAL,
    }),
    {
      projectUrl: "https://abc.supabase.co",
      secretKey: "sb_secret_x",
      port: 5,
      opensBrowser: false,
    },
  );
});

for (
  const [what, args, env] of [
    ["a hosted project without its key", [], { SUPABASE_URL: "https://a.b" }],
    ["a publishable key", [], {
      SUPABASE_URL: "https://a.b",
      SUPABASE_SECRET_KEY: "sb_publishable_x",
    }],
    ["plain http elsewhere", ["--project-url", "http://abc.example"], {}],
    ["a port out of range", ["--port", "65536"], {}],
    ["a port that is none", ["--port", "x"], {}],
  ] as [string, string[], Record<string, string>][]
) {
  Deno.test(`parseConsoleArguments() refuses ${what}`, () => {
    assertThrows(() => parseConsoleArguments(args, { env }), UsageError);
  });
}

Deno.test("console refuses a key with a line break, and does not repeat it", () => {
  const env = {
    SUPABASE_URL: "https://abc.supabase.co",
    SUPABASE_SECRET_KEY: "sb_secret_one\nsb_secret_two",
  };
  const { message } = assertThrows(
    () => parseConsoleArguments([], { env }),
    UsageError,
    "SUPABASE_SECRET_KEY contains a line break",
  );
  assertEquals(message.includes("sb_secret_"), false);
});
