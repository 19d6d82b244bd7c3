/**
 * The npm package as a user has it: in a project without a clone, from `npx` to
 * the first event. npx takes seconds to unpack the package each time, so some
 * commands run what it has installed. Nothing is downloaded, so what the lock
 * files of the package name has to be what this repository is tested with.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { localKeys } from "../../scripts/common/keys.ts";
import { COMMANDS } from "../../scripts/dev/npm_package.ts";
import { leftOf, processTree } from "../support/process_tree.ts";
import type { Typed } from "./deployer.ts";
import { makeNpmUser } from "./npm_user.ts";

/** How the user starts a command, as hints have to name it. */
const NPX = "npx --yes ./billing-webhook-receiver.tgz";
const DOWNLOADS = "Downloading what the commands need, once";
const READY = "Stop with Ctrl-C";
/** npm, its shell, Node.js, `start`, Postgres, PostgREST, two functions. */
const AT_LEAST = 10;

function assertEnds({ code, said }: Typed, wanted: number, says: string): void {
  assertEquals(code, wanted, said);
  assertStringIncludes(said, says);
}

Deno.test("npx adds the receiver to a project, runs it and sends events", async (test) => {
  await using user = await makeNpmUser();
  const { npx, runInstalled } = user;

  await test.step("without Deno, which npm leaves out if it cannot have it", async () => {
    const { code, said } = await npx(["doctor"], {
      env: { npm_config_omit: "optional" },
    });
    assertEquals(code, 1, said);
    assertStringIncludes(said, `Deno ${Deno.version.deno} is missing`);
    const [, folder = ""] = /delete (\S+), and try again/.exec(said) ?? [];
    await Deno.remove(folder, { recursive: true });
  });

  await test.step("only the first command downloads the packages, and says so", async () => {
    const [first, second] = [await npx(["token"]), await npx(["start"])];
    assertEquals([first, second].map(({ said }) => said.includes(DOWNLOADS)), [
      true,
      false,
    ]);
    assertEnds(second, 1, `Run this there first: ${NPX} add .`);
  });

  await test.step("help, and what is not a command", async () => {
    const { code, said } = await runInstalled([]);
    assertEquals(code, 0, said);
    assertStringIncludes(said, `Usage: ${NPX} <command> [options]`);
    assertEquals(
      Array.from(said.matchAll(/^ {2}([a-z]+) {2,}/gm), ([, name]) => name),
      [...COMMANDS],
    );
    assertEnds(await runInstalled(["trigge"]), 2, 'no command "trigge"');
  });

  await test.step("add", async () => {
    assertEnds(
      await runInstalled(["add", ".", "--check"]),
      1,
      "Not up to date, and nothing was written.",
    );
    assertEnds(
      await npx(["add", ".", "--yes"]),
      0,
      `Done: ${user.path} has`,
    );
  });

  await test.step("start, trigger and doctor, with the project's own settings", async () => {
    await Deno.writeTextFile(
      `${user.path}/supabase/functions/.env`,
      "PROVIDER_A_SIGNING_SECRET=whsec_of_the_project_0123456789\n",
    );
    // Only the receiver's migrations are applied to the local stack.
    await Deno.writeTextFile(
      `${user.path}/supabase/migrations/20240101000000_of_the_project.sql`,
      "create table public.mine (id bigint);",
    );
    const { child, ended } = user.spawnNpx(["start"]);
    const errors = new Response(child.stderr).text();
    const output = child.stdout.pipeThrough(new TextDecoderStream())
      .getReader();
    let said = "";
    while (!said.includes(READY)) {
      const { value, done } = await output.read();
      if (done) throw new Error(`Cannot start:\n${said}${await errors}`);
      said += value;
    }
    const tree = await processTree(child.pid);
    try {
      assertStringIncludes(said, `${NPX} trigger customer.subscription.`);
      assertStringIncludes(said, "from PROVIDER_A_SIGNING_SECRET");
      const at = ["--url", `${user.apiUrl}/functions/v1/billing-webhook`];
      const event = ["trigger", "customer.subscription.created", ...at];
      const sent = await runInstalled(event);
      assertEnds(sent, 0, "200 OK");
      assertStringIncludes(sent.said, `Next: ${NPX} trigger customer.`);
      const PROVIDER_A_SIGNING_SECRET = "whsec_another_0123456789";
      assertEnds(
        await runInstalled(event, { env: { PROVIDER_A_SIGNING_SECRET } }),
        1,
        "401 Invalid signature",
      );
      const env = {
        SUPABASE_SECRET_KEY: (await localKeys()).secret,
        SUPABASE_DB_URL: user.dbUrl,
      };
      assertEnds(
        await runInstalled(["doctor", ...at], { env }),
        0,
        " ok, 0 FAIL, 1 skipped",
      );
    } finally {
      child.kill("SIGTERM");
      for (;;) {
        const { value, done } = await output.read();
        if (done) break;
        said += value;
      }
      await Promise.all([ended, errors]);
    }
    assertEquals(said.includes("[migration]"), false, said);
    assertEquals([await leftOf(tree), tree.size > AT_LEAST], [[], true]);
  });
});
