/**
 * Every command in the docs runs here in a new clone, except for those that
 * need what no test has. Those are listed with the reason.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import manifest from "../../package.json" with { type: "json" };
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import {
  commandsOf,
  docCommands,
  pages,
  readPage,
} from "../support/doc_commands.ts";
import { appOf, loadAppCode, RIGHTS, sqlOf } from "../support/app_page.ts";
import { newcomer, type Typed } from "./newcomer.ts";

const LIKE_DEPLOYED =
  "tests/deploy/deploy_page.test.ts, with other names and values";
const STRIPE = "an account of Stripe's, and its CLI";
const DOCKER = "Docker";
const STAND_IN = "tests/stripe_sync, with a stand-in for Stripe";
const ADDED = "tests/deploy/add_to_project.test.ts, with another folder";
const LEAVE =
  "tests/deploy/add_to_project.test.ts, with a stand-in for Supabase";
const PACKAGED =
  "tests/deploy/npm_package.test.ts, with another name of the file";
const DEPLOYED =
  "tests/deploy/deploy_page.test.ts, with a stand-in for Supabase";
const PACKAGE = `${manifest.name}-${manifest.version}.tgz`;

/**
 * Commands that this test does not run, with the reason or the test that does.
 */
const ELSEWHERE: Record<string, string> = {
  "supabase login": DEPLOYED,
  "supabase link --project-ref <project-ref>": DEPLOYED,
  "supabase db push --remote": DEPLOYED,
  "supabase db push --remote --yes": DEPLOYED,
  "supabase functions deploy billing-webhook --use-api --yes": DEPLOYED,
  "supabase functions deploy billing-worker --use-api --yes": DEPLOYED,
  "supabase secrets set PROVIDER_A_SIGNATURE_HEADER=stripe-signature PROVIDER_A_SIGNING_SECRET=whsec_...":
    DEPLOYED,
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_<live>,whsec_<test>":
    DEPLOYED,
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_<live> PROVIDER_A_MODE=live":
    DEPLOYED,
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=<new>,<old>": LIKE_DEPLOYED,
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=<new>": LIKE_DEPLOYED,
  "supabase functions deploy billing-webhook --use-api": DEPLOYED,
  "supabase functions deploy billing-worker --use-api": DEPLOYED,
  "deno task add ../my-app": ADDED,
  "cd ../my-app": ADDED,
  "npm pack": PACKAGED,
  [`npx --yes ./${PACKAGE} add .`]: PACKAGED,
  [`npx --yes ./${PACKAGE} start`]: PACKAGED,
  [`npx --yes ./${PACKAGE} trigger customer.subscription.created`]:
    `${PACKAGED}, by what npx has installed`,
  "deno task add ../my-app --check": ADDED,
  "supabase migration new billing_leave": LEAVE,
  "supabase functions delete billing-webhook": LEAVE,
  "supabase functions delete billing-worker": LEAVE,
  "supabase secrets unset PROVIDER_A_SIGNING_SECRET PROVIDER_A_SIGNATURE_HEADER":
    LEAVE,
  "rm -r supabase/functions/billing-webhook supabase/functions/billing-worker":
    LEAVE,
  "rm -r supabase/functions/_shared/billing": LEAVE,
  "grep -o '[^\"]*\\.sql' supabase/billing.json | grep -v '^migrations/' | sed 's|^|supabase/|' | xargs rm -f":
    LEAVE,
  "files=$(cd supabase/migrations && ls $(grep -o '[0-9]*_billing[^\"]*' ../billing.json) *_billing_leave.sql)":
    LEAVE,
  'supabase migration repair --remote --status reverted $(echo "$files" | cut -d_ -f1)':
    LEAVE,
  "(cd supabase/migrations && rm $files ../billing.json)": LEAVE,
  "supabase start": DOCKER,
  "supabase functions serve": DOCKER,
  "stripe login": STRIPE,
  "stripe listen --forward-to http://127.0.0.1:54321/functions/v1/billing-webhook":
    STRIPE,
  "stripe trigger customer.subscription.created --add subscription:metadata.accountId=acc_1":
    STRIPE,
  "supabase secrets set UNMAPPED_SUBSCRIPTIONS=ignore": LIKE_DEPLOYED,
  "read -rs STRIPE_API_KEY && export STRIPE_API_KEY": STAND_IN,
  "deno task import --mode live": STAND_IN,
  "deno task reconcile --mode live": STAND_IN,
  "deno task reconcile --mode live --apply": STAND_IN,
  "deno task reconcile --mode live --json": STAND_IN,
  "deno task test tests/unit tests/integration/subscription_life.test.ts":
    "the gate, which runs this",
  "FUZZ_CASES=1000000 deno task test tests/fuzz/verifier.test.ts":
    "four minutes; the gate does fewer",
  "EVERYTHING_SECONDS=60 deno task test tests/faults/everything_at_once.test.ts":
    "a minute; the gate does four seconds",
  "deno task console": "tests/unit/console/command.test.ts, and tests/console",
  "deno task console --project-url https://<project-ref>.supabase.co":
    "tests/unit/console/command.test.ts",
  "SCREENSHOT=1 deno task test tests/console":
    "the gate, which runs this and takes no picture",
  "UPDATE_EXAMPLES=1 deno task test tests/integration/notification_examples.test.ts":
    "it writes into the page; without the variable, the gate runs it",
  "deno task migration":
    "tests/deploy/migrations.test.ts, which compares what it writes",
  "npx -y deno@2.9.6 audit": "the registry's list of advisories",
  "npx -y deno@2.9.6 audit --lock tests/console/deno.lock":
    "the registry's list of advisories",
};

const commands = docCommands();
const typed = new Set<string>();

/**
 * A page's command: the one that is so exactly, else the first that begins so.
 */
function commandOf(page: string, start: string): string {
  const found = commands.filter(({ place, text }) =>
    place.startsWith(`${page}:`) && text.startsWith(start)
  );
  assert(found.length > 0, `${page} has no command ${start}`);
  const { text } = found.find(({ text }) => text === start) ?? found[0]!;
  typed.add(text);
  return text;
}

/** All commands of the block that a command stands in. */
function blockOf(page: string, start: string): string[] {
  const found = commands.find(({ place, text }) =>
    place.startsWith(`${page}:`) && text.startsWith(start)
  );
  assert(found !== undefined, `${page} has no command ${start}`);
  const block = commands.filter(({ place }) => place === found.place);
  block.forEach(({ text }) => typed.add(text));
  return block.map(({ text }) => text);
}

function assertWorks({ code, said }: Typed, says: string): void {
  assertStringIncludes(said, says);
  assertEquals(code, 0, said);
}

Deno.test("the commands in the docs work for a newcomer", async (test) => {
  await using person = await newcomer();
  const { type } = person;
  const tell = (page: string, start: string) => type(commandOf(page, start));

  await test.step("README: two commands, and a look at the table", async () => {
    await using _stack = await person.start(
      commandOf("README.md", "npx -y deno@2.9.6 task start"),
    );
    const first = await tell("README.md", "npx -y deno@2.9.6 task trigger");
    assertWorks(first, "200 OK");
    assertStringIncludes(
      first.said,
      "applied. The row in billing.subscriptions:",
    );
    assertWorks(await tell("README.md", "psql"), '"status":"active"');
    for (
      const event of [
        "customer.subscription.updated",
        "invoice.payment_failed",
        "customer.subscription.deleted",
      ]
    ) {
      assertStringIncludes(readPage("README.md"), `\`${event}\``);
      assertWorks(await type(`deno task trigger ${event}`), "200 OK");
    }
    assertWorks(await tell("README.md", "psql"), '"status":"canceled"');
  });

  await test.step("deploy.md: the file that Docker's stack and this one read", async () => {
    assertWorks(await tell("docs/deploy.md", "cp "), "");
    assertWorks(await tell("docs/deploy.md", "echo "), "");
    const file = await Deno.readTextFile(
      `${person.path}/supabase/functions/.env`,
    );
    // The secret that is in use without any file would prove nothing.
    const secret = "whsec_only_in_the_file";
    await Deno.writeTextFile(
      `${person.path}/supabase/functions/.env`,
      file.replace(/^(PROVIDER_A_SIGNING_SECRET=).+$/m, `$1${secret}`),
    );
    await using _stack = await person.start("deno task start");
    assertWorks(await tell("docs/deploy.md", "deno task trigger"), "200 OK");
    assertWorks(await tell("docs/deploy.md", "deno task doctor"), "0 FAIL");
    const other = `PROVIDER_A_SIGNING_SECRET=whsec_another`;
    assertStringIncludes(
      (await type(`${other} deno task trigger invoice.payment_failed`)).said,
      "401 Invalid signature",
    );
    await Deno.remove(`${person.path}/supabase/functions/.env`);
  });

  await test.step("stripe.md and the doctor: with Stripe's header", async () => {
    await using _stack = await person.start("deno task start");
    for (const line of blockOf("docs/stripe.md", "echo PROVIDER_A")) {
      assertWorks(await type(line), "");
    }
    // The commands read the file as well: this waits until it is served.
    const trigger = "deno task trigger payment_intent.payment_failed";
    assert(
      await waitUntil(async () => (await type(trigger)).code === 0, {
        timeoutMs: HANG_LIMIT_MS,
      }),
      "start does not serve the file",
    );
    const { secret } = await localKeys();
    const signing = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;
    const settings = blockOf("docs/deploy.md", "deno task doctor --url")
      .slice(0, -1).join("\n");
    const pasted = `${secret}\n${person.dbUrl}\n${signing}\n`;
    for (
      const [page, start] of [
        ["docs/deploy.md", "deno task doctor --url"],
        ["docs/rewrites.md", "deno task doctor --url"],
      ] as const
    ) {
      const doctor = commandOf(page, start);
      const { code, said } = await type(`${settings}\n${doctor}`, pasted);
      assertWorks({ code, said }, "12 ok, 0 FAIL, 1 skipped");
      for (const one of [secret, signing, person.dbUrl]) {
        assertEquals(said.includes(one), false, `${one} is in: ${said}`);
      }
    }
    const rotation = blockOf("SECURITY.md", "deno task doctor").join("\n");
    const header = "export PROVIDER_A_SIGNATURE_HEADER=stripe-signature";
    assertWorks(await type(`${header}\n${rotation}`, `${signing}\n`), "0 FAIL");
    await Deno.remove(`${person.path}/supabase/functions/.env`);
  });

  await test.step("app.md: a user reads their own plan and is let in", async () => {
    await using _stack = await person.start(
      commandOf("docs/app.md", "deno task start"),
    );
    await using code = await loadAppCode();
    const psql = commandOf("docs/app.md", "psql");
    const asUser = sqlOf("set local role authenticated");
    const [account = ""] = /1111[-\d]+1111/.exec(asUser) ?? [];
    const app = await appOf({ sub: account }, { apiUrl: person.apiUrl });

    for (const sql of [RIGHTS, sqlOf('"Users read')]) {
      assertWorks(await type(psql, sql), "");
    }
    assertEquals(await code.hasAccess(app, account), false);
    assertEquals(await code.readPlan(app), null);
    const ask = commandOf("docs/app.md", "curl -s -H 'apikey")
      .replace("acc_local", account);
    assertEquals((await type(ask)).said, "false");

    assertWorks(await tell("docs/app.md", "deno task trigger"), "200 OK");
    assertWorks(await type(psql, asUser), 'has_access":true');
    assertEquals((await type(ask)).said, "true");
    const another = asUser.replaceAll(account, crypto.randomUUID());
    const seen = await type(psql, another);
    assertWorks(seen, "[]");
    assertEquals(seen.said.includes("has_access"), false, seen.said);
    const token = blockOf("docs/app.md", "token=").join("\n");
    const read = await type(token);
    assertMatch(
      read.said,
      /\[\{"id":"sub_local_a","status":"active","plan_id":"price_\w+"\}\]/,
    );
    const noPlan = token.replaceAll(account, crypto.randomUUID());
    assertWorks(await type(noPlan), "[]");
    assertEquals(await code.hasAccess(app, account), true);
    const plan = await code.readPlan(app);
    assertMatch(
      code.describePlan(plan!, { timeZone: "UTC" }),
      /^price_\w+, (\d seats?, )?renews on \d+ \w+ \d{4}$/,
    );
  });

  await test.step("console.md: an event that fails", async () => {
    await using _stack = await person.start("deno task start");
    const { said } = await tell("docs/console.md", "deno task trigger");
    assertStringIncludes(said, "422 Event is not valid");
    assertMatch(said, /error_code +event_invalid/);
  });

  await test.step("README: reset", async () => {
    assertWorks(await type("deno task reset"), "Emptied");
  });
});

Deno.test("every command in the docs is run, or listed with the reason why not", () => {
  const missing = commands.filter(({ text }) =>
    !typed.has(text) && !(text in ELSEWHERE)
  );
  assertEquals(missing, []);
  const texts = commands.map(({ text }) => text);
  const gone = Object.keys(ELSEWHERE).filter((text) => !texts.includes(text));
  assertEquals(gone, [], "no page has these any more");
});

Deno.test("every task that the docs name exists, and every task is documented", () => {
  const { tasks } = JSON.parse(readPage("deno.json"));
  const named = new Set(
    pages().flatMap((page) =>
      Array.from(
        readPage(page).matchAll(/(?:deno|deno@[\d.]+) task ([a-z][a-z:]*)/g),
        ([, name = ""]) => name,
      )
    ),
  );
  assertEquals([...named].sort(), Object.keys(tasks).sort());
});

Deno.test("every link in the docs leads to a page and a heading", async () => {
  const broken: string[] = [];
  for (const page of pages()) {
    const links = readPage(page).matchAll(
      /\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g,
    );
    for (const [link, path = "", anchor] of links) {
      const target = path === "" ? page : new URL(path, `file:///${page}`)
        .pathname.slice(1);
      const isThere = await Deno.stat(
        new URL(`../../${target}`, import.meta.url),
      )
        .then(() => true, () => false);
      const isHeading = anchor === undefined ||
        (isThere && headings(target).includes(anchor));
      if (!isThere || !isHeading) broken.push(`${page}: ${link}`);
    }
  }
  assertEquals(broken, []);
});

/** A page's headings as the links to them are spelled. */
function headings(page: string): string[] {
  return Array.from(
    readPage(page).matchAll(/^#+ (.+)$/gm),
    ([, text = ""]) =>
      text.toLowerCase().replaceAll(/[^a-z0-9 _-]/g, "").replaceAll(" ", "-"),
  );
}

Deno.test("commandsOf() joins continued lines and removes comments", () => {
  assertEquals(
    commandsOf("# a comment\nA=1 \\\n  run \\\n  --all\n\nstop\n"),
    ["A=1 run --all", "stop"],
  );
});
