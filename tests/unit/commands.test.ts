/** What `add`, `console`, `token` and `trigger` print, and their exit codes. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { existsSync } from "node:fs";
import Stripe from "stripe";
import { add as addCommand } from "../../scripts/add.ts";
import { reportEnd } from "../../scripts/common/cli.ts";
import { createCommand } from "../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../scripts/common/how_started.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { makeProject, THEIRS } from "../support/project_folder.ts";
import { command, runCommand } from "../support/run_script.ts";

const SECRET = "whsec_of_this_test";
const CREATED = "customer.subscription.created";
const URL_OF_CONSOLE = "http://127.0.0.1:54321";

/** Runs `add` from another folder, as `deno task` does; here it has no terminal. */
async function add(from: string, line: string, exit: number, says: string[]) {
  const { log, error } = console;
  const said: string[] = [];
  const say = (text: string) => said.push(`${text}\n`);
  Deno.env.set("INIT_CWD", from);
  Object.assign(console, { log: say, error: say });
  const code = await addCommand(line.split(" "))
    .catch((error) => reportEnd(error)).finally(() => {
      Object.assign(console, { log, error });
      Deno.env.delete("INIT_CWD");
    });
  assertEquals(code, exit, said.join(""));
  for (const text of says) assertStringIncludes(said.join(""), text);
  return said.join("");
}

Deno.test("add, from nothing to up to date, where git can undo it", async () => {
  await using project = await makeProject();
  const { path } = project;
  await project.commit();
  const before = await project.tree();
  await add(path, ". --check", 1, ["Not up to date, and nothing was written."]);
  await add(path, ". --dry-run", 0, ["add supabase/migrations"]);
  await add(path, ".", 2, ["There is no terminal to ask: add --yes or --dry-"]);
  assertEquals(await project.tree(), before);
  await project.write("functions/hello/index.ts", "mine");
  await project.write("../README.md", "mine");
  const dirty = ["?? README.md", " M supabase/functions/hello"];
  await add(path, ". --yes", 1, dirty);
  // Nor where git would not show a file, or bring it back.
  await project.write("../.gitignore", "*.lock\nconfig.toml\n");
  const lock = "functions/billing-worker/deno.lock";
  const ignored = ["- git ignores these files.", `\nsupabase/${lock}\n`];
  await add(path, ". --dry-run", 1, ignored);
  await project.write("../.gitignore", "config.toml\n"); // It is tracked.
  await add(path, ". --dry-run", 0, ["change supabase/config.toml"]);
  assert(!("billing.json" in await project.tree()));
  await project.commit();
  const first = "The push creates nothing if your database already has";
  await add(path, ". --yes", 0, [`Done: ${path} has`, "db push --rem", first]);
  const after = await project.tree();
  // Also by its supabase folder.
  for (const line of ["supabase --check", ". --yes"]) {
    await add(path, line, 0, ["Up to date: "]);
  }
  assertEquals(await project.tree(), after);
  await project.remove("snippets/4_retry.sql");
  await project.commit();
  const updated = await add(path, ". --yes", 0, ["db push --remote\n"]);
  assert(!updated.includes(first), updated);
  await Deno.remove(`${path}/.git`, { recursive: true });
  await project.remove("snippets/4_retry.sql");
  await add(path, ". --yes", 1, [`git does not track ${path}/supabase`]);
});

Deno.test("add ends with 1 if something is left to do, and refuses what is no project", async () => {
  await using project = await makeProject({ ...THEIRS, "config.json": "{}" });
  await project.commit();
  const left = "Left for you:\n- supabase/config.json needs";
  await add(project.path, ". --yes", 1, ["Done: ", left]);
  await project.remove("billing.json");
  await project.write("functions/billing-webhook/index.ts", "mine");
  const taken = "Nothing was written.\n- supabase/functions/billing-webhook/";
  await add(project.path, ". --yes", 1, [taken]);
  await add("/", ". --yes --check", 2, ["Choose one of --yes and --check."]);
  await add("/", "nowhere", 1, [
    "has no supabase/config.toml. Name the folder",
  ]);
  await add("/", REPOSITORY, 1, ["is the receiver itself"]);
});

Deno.test("add asks git about the project's own folder, in lines, whatever git is set to", async () => {
  await using project = await makeProject();
  const { path } = project;
  await project.write("../apps/shop/supabase/config.toml", "");
  await project.commit();
  const git = (...args: string[]) =>
    createCommand("git", { args, cwd: path }).output();
  await git("config", "status.showUntrackedFiles", "no");
  // Of another package; then the project's own.
  await project.write("../packages/mail.ts", "");
  await project.write('../apps/shop/src/"ä"\n.ts', "");
  const dirty = "stash them first.\n?? src/\n";
  await add(path, "apps/shop --yes", 1, [dirty]);
  await project.write("../apps/shop/src/a.ts", "");
  await git("add", "apps");
  await add(path, "apps/shop --yes", 1, [
    'first.\nA  src/"ä"\\u000a.ts\nA  src/a.ts\n',
  ]);
  await git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "a");
  const config = "apps/shop/supabase/config.toml";
  for (const mark of ["skip-worktree", "assume-unchanged"]) {
    await git("update-index", `--${mark}`, config);
    const skipped = "Nothing was written.\n- git skips these files.";
    await add(path, "apps/shop --check", 1, [
      skipped,
      "\nsupabase/config.toml\n",
    ]);
    await git("update-index", `--no-${mark}`, config);
  }
  // In a hook, git names the hook's repository.
  Deno.env.set("GIT_DIR", "/nowhere");
  using _ = { [Symbol.dispose]: () => Deno.env.delete("GIT_DIR") };
  await Deno.symlink("shop", `${path}/apps/link`);
  await add(path, "apps/link --yes", 0, [`Done: ${path}/apps/shop has`]);
  const none = await runCommand("add", [path, "--yes"], { PATH: "/nowhere" });
  assertStringIncludes(none.err, "undo changes.\ngit is not installed.\n");
  const owned = await runCommand("add", [path, "--yes"], {
    GIT_TEST_ASSUME_DIFFERENT_OWNER: "1",
  });
  assertStringIncludes(owned.err, "\n  git config --global --add safe.direct");
});

Deno.test("add writes nothing if supabase is a link, and ends with 1", async () => {
  await using outside = await makeProject({});
  await using project = await makeProject();
  const { path } = project;
  await Deno.rename(`${path}/supabase`, `${outside.path}/supabase`);
  await Deno.symlink(`${outside.path}/supabase`, `${path}/supabase`);
  await project.commit();
  for (const line of [". --yes", "supabase --yes"]) {
    await add(path, line, 1, [
      "Nothing was written.\n- supabase is a link to ",
    ]);
  }
});

function startConsole(port: number): Deno.ChildProcess {
  const env = { SUPABASE_URL: URL_OF_CONSOLE, SUPABASE_SECRET_KEY: "sb_x" };
  return command("console", [`--port=${port}`], env).spawn();
}

Deno.test("console prints a link, listens on 127.0.0.1 alone, or says that it cannot, and ends with 0 on Ctrl-C", async () => {
  const child = startConsole(0);
  const errors = new Response(child.stderr).text();
  let said = "";
  const output = child.stdout.pipeThrough(new TextDecoderStream());
  for await (const text of output) {
    said += text;
    if (said.includes("Stop with Ctrl-C")) break;
  }
  assertStringIncludes(said, URL_OF_CONSOLE);
  const link = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}/.exec(said)?.[0];
  const first = await fetch(link!, { redirect: "manual" });
  assertStringIncludes(await first.text(), "Open the console");
  const port = Number(new URL(link!).port);
  const second = await startConsole(port).output();
  assertEquals(second.code, 1);
  const refusal = new TextDecoder().decode(second.stderr);
  assertMatch(refusal, /^Port \d+ is in use\. .*--port/);
  const others = Deno.networkInterfaces().map(({ address }) => address)
    .filter((address) => !/^(127\.|::1$|fe80)/.test(address));
  for (const hostname of [...others, "127.0.0.2"]) {
    const connection = await Deno.connect({ hostname, port }).catch(() => {});
    connection?.close();
    assertEquals(connection, undefined, hostname);
  }
  child.kill("SIGINT");
  assertEquals((await child.status).code, 0);
  assertEquals(await errors, "");
});

Deno.test("the browser is told the link, not the secret key, and outlives Ctrl-C", async () => {
  const folder = await Deno.makeTempDir();
  const seen = `${folder}/seen`;
  // Ctrl-C in the terminal goes to the console's process group.
  const opener =
    `#!/bin/sh\n{ echo "url $1"; echo "group $(ps -o pgid= -p $$) self $$"; env; } > "$SEEN.new"\nmv "$SEEN.new" "$SEEN"\n`;
  for (const name of ["xdg-open", "open"]) {
    await Deno.writeTextFile(`${folder}/${name}`, opener, { mode: 0o755 });
  }
  const path = `${folder}:${Deno.env.get("PATH")}`;
  const env = { PATH: path, SEEN: seen, SUPABASE_SECRET_KEY: "sb_secret_x" };
  const script = import.meta.resolve("../../scripts/console.ts");
  const code =
    `import { openBrowser } from "${script}"; openBrowser("http://x/");`;
  const args = ["eval", "--quiet", code];
  await createCommand(Deno.execPath(), { args, env }).output();
  const isWritten = () => existsSync(seen);
  await waitUntil(isWritten, { timeoutMs: HANG_LIMIT_MS });
  const said = await Deno.readTextFile(seen);
  assertMatch(said, /^url http:\/\/x\/\ngroup +(\d+) self \1\n/);
  assertEquals(said.includes("sb_secret"), false);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("token refuses what is no user, and is for the local stack only", async () => {
  const { code, err } = await runCommand("token", ["--user=service_role"]);
  assertEquals([code, err.includes("--user takes a UUID")], [2, true]);
  const user = "--user=11111111-1111-4111-8111-111111111111";
  assertEquals((await runCommand("token", [user])).code, 1);
});

/** Runs `trigger`, whatever supabase/functions/.env has. */
function trigger(line: string) {
  return runCommand("trigger", line.split(" "), {
    PROVIDER_A_SIGNING_SECRET: SECRET,
    PROVIDER_A_SIGNATURE_SCHEME: "stripe",
    PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
  });
}

function serve(answer: (request: Request) => Response | Promise<Response>) {
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const server = Deno.serve(options, answer);
  const url = `http://127.0.0.1:${server.addr.port}/hook`;
  return { url, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("trigger sends what verifies, and prints the answer alone", async () => {
  const events: Stripe.Event[] = [];
  await using receiver = serve(async (request) => {
    const signature = request.headers.get("stripe-signature") ?? "";
    const { webhooks } = Stripe;
    const body = await request.text();
    events.push(await webhooks.constructEventAsync(body, signature, SECRET));
    return new Response("\x1b[2J\u202e\r\nnext");
  });
  const line = `${CREATED} --url ${receiver.url}`;
  const { out: printed } = await trigger(`${line} --print`);
  assertEquals(JSON.parse(printed).data.object.id, "sub_local_a");
  const { code, out, err } = await trigger(line);
  // A terminal executes control characters.
  assertEquals([code, out], [0, "200 \\u001b[2J\\u202e\nnext\n"]);
  assertEquals(events.map(({ type }) => type), [CREATED]);
  const { id, created } = events[0]!;
  assert(Math.abs(Date.now() / 1000 - created) < 60);
  assertStringIncludes(err, `${CREATED} ${id} about\nsub_local_a, signed as`);
});

Deno.test("trigger sends a file as it is, follows no redirect, and says if nothing listens", async () => {
  const file = await Deno.makeTempFile();
  const bytes = Uint8Array.of(0x7b, 0xff, 0x00, 0x7d);
  await Deno.writeFile(file, bytes);
  const received: unknown[] = [];
  const receiver = serve(async (request) => {
    received.push(new URL(request.url).pathname, await request.bytes());
    return new Response(null, { status: 302, headers: { location: "/other" } });
  });
  const line = `--payload ${file} --url ${receiver.url}`;
  const result = await trigger(line);
  assertEquals([result.code, result.out], [1, "302\n"]);
  assertEquals(received, ["/hook", bytes]);
  await receiver[Symbol.asyncDispose]();
  const { code, out, err } = await trigger(line);
  assertEquals([code, out], [1, ""]);
  const reason = `Cannot reach ${receiver.url}: is the local stack running?`;
  assertStringIncludes(err, reason);
  await Deno.remove(file);
});
