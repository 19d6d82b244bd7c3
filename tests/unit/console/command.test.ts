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
import { waitUntil } from "../../../scripts/local_stack/wait_until.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/billing-webhook/local_stack.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const SCRIPT = new URL("../../../scripts/console.ts", import.meta.url).href;
const LOCAL_URL = "http://127.0.0.1:54321";

/** Starts the command; without a terminal it opens no browser. */
function start(port: number): Deno.ChildProcess {
  return createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", SCRIPT, `--port=${port}`],
    env: { SUPABASE_URL: LOCAL_URL, SUPABASE_SECRET_KEY: "sb_secret_x" },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  Deno.test(`console prints a link, listens on 127.0.0.1 alone, and ends with 0 on ${signal}`, async () => {
    const child = start(0);
    const errors = new Response(child.stderr).text();
    let said = "";
    const output = child.stdout.pipeThrough(new TextDecoderStream());
    for await (const text of output) {
      said += text;
      if (said.includes("Stop with Ctrl-C")) break;
    }
    assertStringIncludes(said, LOCAL_URL);
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
  const { code, stderr } = await start(listener.addr.port).output();
  assertEquals(code, 1);
  const said = new TextDecoder().decode(stderr);
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
  const script =
    `import { openBrowser } from "${SCRIPT}"; openBrowser("http://x/");`;
  await createCommand(Deno.execPath(), {
    args: ["eval", "--quiet", script],
    env: {
      PATH: `${folder}:${Deno.env.get("PATH")}`,
      SEEN: seen,
      SUPABASE_SECRET_KEY: "sb_secret_x",
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
  const env = { SUPABASE_SECRET_KEY: "sb_secret_x" };
  const apiUrl = "http://127.0.0.1:12345";
  const local = { apiUrl, webhookUrl: "", dbUrl: "", secretKey: "" };
  const hosted = { ...env, SUPABASE_URL: "https://abc.supabase.co/" };
  const url = `--project-url=${LOCAL_URL}`;
  for (
    const [args, here, projectUrl, secretKey] of [
      [[], { env: {} }, LOCAL_URL, LOCAL_SECRET_KEY],
      [[], { env, local }, apiUrl, LOCAL_SECRET_KEY],
      [[url], { env, local }, LOCAL_URL, "sb_secret_x"],
      [[], { env: hosted }, "https://abc.supabase.co", "sb_secret_x"],
    ] as const
  ) {
    const rest = { port: 54340, opensBrowser: true };
    const expected = { projectUrl, secretKey, ...rest };
    assertEquals(parseConsoleArguments(args, here), expected);
  }
  const chosen = parseConsoleArguments(["--no-open", "--port", "5"], { env });
  assertEquals([chosen.port, chosen.opensBrowser], [5, false]);
  for (const args of [["--port", "65536"], ["--port", "x"]]) {
    assertThrows(() => parseConsoleArguments(args, { env }), UsageError);
  }
});
