/**
 * The npm package as a user has it: a file in a project made by the CLI, with neither a
 * clone nor Deno. npx takes seconds to unpack the file each time, so some commands run
 * what it has installed. Nothing is downloaded, so what the lock files of the package name
 * has to be what this repository is tested with.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { REPOSITORY } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { COMMANDS } from "../../scripts/dev/downloads.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { commitAll } from "../support/project_folder.ts";
import {
  openTerminal,
  placeForStack,
  type Typed,
} from "../support/terminal.ts";

const PACKAGE = "./billing-webhook-receiver.tgz";
/** Hints have to name commands like this. */
const NPX = `npx --yes ${PACKAGE}`;

function assertEnds(
  { code, output }: Typed,
  wanted: number,
  says: string,
): void {
  assertEquals(code, wanted, output);
  assertStringIncludes(output, says);
}

async function makeUser(opened: AsyncDisposableStack) {
  const made = await Deno.makeTempDir({ prefix: "billing-webhook-npm-" });
  opened.defer(() => Deno.remove(made, { recursive: true }));
  const path = await Deno.realPath(made);

  const clone = opened.use(await openTerminal(REPOSITORY));
  const packing = await clone.type(`
    cd '${path}' && mkdir supabase && echo 'project_id = "app"' > supabase/config.toml
    # npm's downloads are those of this machine, its installations are not.
    mkdir -p home/.npm
    ln -s "$(npm config get cache)/_cacache" home/.npm/_cacache
    cd '${REPOSITORY}'
    npm pack --ignore-scripts --pack-destination '${path}'
    mv '${path}'/*.tgz '${path}/${PACKAGE}'
    # Deno must read neither.
    echo '{ "name": "app", "imports": 1 }' | tee '${path}/package.json' > '${path}/deno.json'
    echo home > '${path}/.gitignore'`);
  assertEquals(packing.code, 0, packing.output);
  const info = await clone.type("deno info --json");
  await commitAll(path);

  const user = opened.use(await openTerminal(path, {}, { hasTools: false }));
  const place = await placeForStack(opened);
  Object.assign(user.env, place.env, {
    HOME: `${path}/home`,
    npm_config_cache: `${path}/home/.npm`,
    DENO_DIR: JSON.parse(info.output).denoDir,
  });

  const npx = (command: string, env = {}) =>
    user.type(`${NPX} ${command}`, { env });
  const installed = (command: string, env = {}) =>
    user.type(
      `home/.npm/_npx/*/node_modules/.bin/billing-webhook-receiver ${command}`,
      { env: { npm_command: "exec", ...env } },
    );
  return { ...place, path, npx, installed, start: user.start };
}

Deno.test("npx adds the receiver to a project, runs it and sends events", async (test) => {
  await using opened = new AsyncDisposableStack();
  const user = await makeUser(opened);
  const { npx, installed, path } = user;

  await test.step("what needs the receiver says so, before it is there", async () => {
    assertEnds(await npx("token"), 2, "The user is missing");
    const output = `Run this there first: ${NPX} add .`;
    assertEnds(await installed("start"), 1, output);
  });

  await test.step("help", async () => {
    const { output } = await installed("");
    assertStringIncludes(output, `Usage: ${NPX} <command> [options]`);
    const named = output.matchAll(/^ {2}([a-z]+) {2,}/gm);
    assertEquals(Array.from(named, ([, name]) => name), [...COMMANDS]);
    const meant = 'no command "trigge". Did you mean trigger? See --help.';
    assertEnds(await installed("trigge"), 2, meant);
  });

  await test.step("add", async () => {
    const check = await installed("add . --check");
    assertEnds(check, 1, "Not up to date, and nothing was written.");
    assertEnds(await installed("add . --yes"), 0, `Done: ${path} has`);
  });

  await test.step("start, trigger and doctor, with the project's own settings", async () => {
    await Deno.writeTextFile(
      `${path}/supabase/functions/.env`,
      "PROVIDER_A_SIGNING_SECRET=whsec_of_the_project_0123456789\nHANDLE_EVENT_TYPES=payment_intent.payment_failed\n",
    );
    const migrations = {
      "20240101000000_search": "create extension vector",
      "20991231000000_handler": `
        create table public.failed (id text);
        create function billing.on_payment_intent_payment_failed(text, event jsonb)
        returns void language sql
        as $$ insert into public.failed values (event ->> 'id') $$`,
    };
    for (const [name, sql] of Object.entries(migrations)) {
      await Deno.writeTextFile(`${path}/supabase/migrations/${name}.sql`, sql);
    }

    await using stack = await user.start(`${NPX} start`);
    const at = `--url ${user.apiUrl}/functions/v1/billing-webhook`;
    const handled = `trigger payment_intent.payment_failed --event evt_1 ${at}`;
    assertEnds(await installed(handled), 0, "200 OK");
    await withDatabase(user.dbUrl, async (sql) => {
      assertEquals([...await sql`select id from failed`], [{ id: "evt_1" }]);
    });

    const env = {
      SUPABASE_SECRET_KEY: (await localKeys()).secret,
      SUPABASE_DB_URL: user.dbUrl,
    };
    const doctor = await installed(`doctor ${at}`, env);
    assertEnds(doctor, 0, " ok, 0 FAIL, 2 skipped");

    assertEquals(await stack.stop(), []);
    for (
      const part of [
        '20240101000000_search.sql\n      extension "vector" is not available',
        `${NPX} trigger customer.subscription.`,
        "from PROVIDER_A_SIGNING_SECRET",
      ]
    ) assertStringIncludes(stack.output(), part);
  });
});
