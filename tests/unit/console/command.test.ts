import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { parseConsoleArguments } from "../../../scripts/console.ts";
import { UsageError } from "../../../scripts/common/cli.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/billing-webhook/local_stack.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const SCRIPT = new URL("../../../scripts/console.ts", import.meta.url).href;
const URL_OF_LOCAL = "http://127.0.0.1:12345";
const LOCAL = {
  apiUrl: URL_OF_LOCAL,
  webhookUrl: `${URL_OF_LOCAL}/functions/v1/billing-webhook`,
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

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  Deno.test(`console prints a link, listens on 127.0.0.1 alone, and ends with 0 on ${signal}`, async () => {
    const child = start("--port=0");
    const errors = new Response(child.stderr).text();
    let said = "";
    const output = child.stdout.pipeThrough(new TextDecoderStream());
    for await (const text of output) {
      said += text;
      if (said.includes("Stop with Ctrl-C")) break;
    }
    assertStringIncludes(said, "http://127.0.0.1:54321");
    const link = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}/.exec(said)?.[0];
    assert(link !== undefined, said);
    const first = await fetch(link, { redirect: "manual" });
    assertEquals([first.status, await first.text()], [303, ""]);
    const port = Number(new URL(link).port);
    const others = Deno.networkInterfaces().map(({ address }) => address)
      .filter((address) => !/^(127\.|::1$|fe80)/.test(address));
    for (const hostname of [...others, "127.0.0.2"]) {
      const connection = await Deno.connect({ hostname, port }).catch(() => {});
      connection?.close();
      assertEquals(connection, undefined, hostname);
    }
    child.kill(signal);
    assertEquals((await child.status).code, 0);
    assertEquals(await errors, "");
  });
}

Deno.test("console says so if its port is in use", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const output = await start(`--port=${listener.addr.port}`).output();
  assertEquals(output.code, 1);
  const said = new TextDecoder().decode(output.stderr);
  assertMatch(said, /^Port \d+ is in use\. .*--port/);
});

Deno.test("the browser is told the link, not the secret key, and outlives Ctrl-C", async () => {
  const folder = await Deno.makeTempDir();
  const seen = `${folder}/seen`;
  const opener =
    `#!/bin/sh\n{ echo "url $1"; echo "group $(ps -o pgid= -p $$) self $$"; env; } > "$SEEN.new"\nmv "$SEEN.new" "$SEEN"\n`;
  for (const name of ["xdg-open", "open"]) {
    await Deno.writeTextFile(`${folder}/${name}`, opener, { mode: 0o755 });
  }
  await createCommand(Deno.execPath(), {
    args: [
      ...["eval", "--quiet"],
      `import { openBrowser } from "${SCRIPT}"; openBrowser("http://x/");`,
    ],
    env: {
      PATH: `${folder}:${Deno.env.get("PATH")}`,
      SEEN: seen,
      SUPABASE_SECRET_KEY: "sb_secret_of_this_test",
    },
  }).output();
  const read = () => Deno.readTextFile(seen).catch(() => "");
  const timeoutMs = HANG_LIMIT_MS;
  await waitUntil(async () => await read() !== "", { timeoutMs });
  const said = await read();
  assertStringIncludes(said, "url http://x/\n");
  assertEquals(said.includes("sb_secret"), false);
  // Ctrl-C in the terminal goes to the console's process group.
  assertMatch(said, /group +(\d+) self \1\n/);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("parseConsoleArguments() chooses the project, and keeps a hosted project's key for it", () => {
  const SUPABASE_SECRET_KEY = "sb_secret_x";
  const env = { SUPABASE_SECRET_KEY };
  const hosted = { ...env, SUPABASE_URL: "https://abc.supabase.co/" };
  const url = ["--project-url=http://127.0.0.1:54321"];
  for (
    const [args, here, projectUrl, secretKey] of [
      [[], { env: {} }, "http://127.0.0.1:54321", LOCAL_SECRET_KEY],
      [[], { env, local: LOCAL }, URL_OF_LOCAL, LOCAL_SECRET_KEY],
      [url, { env, local: LOCAL }, "http://127.0.0.1:54321", "sb_secret_x"],
      [[], { env: hosted }, "https://abc.supabase.co", "sb_secret_x"],
    ] as const
  ) {
    const access = { projectUrl, secretKey };
    const rest = { port: 54340, opensBrowser: true };
    assertEquals(parseConsoleArguments(args, here), { ...access, ...rest });
  }
  const chosen = parseConsoleArguments(["--no-open", "--port", "5"], { env });
  assertEquals([chosen.port, chosen.opensBrowser], [5, false]);
});

for (
  const [what, args, env] of [
    ["a hosted project without its key", [], { SUPABASE_URL: "https://a.b" }],
    ["a publishable key", ["--project-url=https://a.b"], {
      SUPABASE_SECRET_KEY: "sb_publishable_x",
    }],
    ["a key with a line break", ["--project-url=https://a.b"], {
      SUPABASE_SECRET_KEY: "sb_secret_1\nsb_secret_2",
    }],
    ["plain http elsewhere", ["--project-url", "http://abc.example"], {}],
    ["a port out of range", ["--port", "65536"], {}],
    ["a port that is none", ["--port", "x"], {}],
    ["an unknown option", ["--prot=1"], {}],
  ] as [string, string[], Record<string, string>][]
) {
  Deno.test(`parseConsoleArguments() refuses ${what}, and repeats no key`, () => {
    const refused = () => parseConsoleArguments(args, { env });
    const { message } = assertThrows(refused, UsageError);
    assertEquals(/sb_(?:secret|publishable)_\w/.test(message), false);
  });
}
