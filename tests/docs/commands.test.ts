/**
 * The commands in the docs are typed by a newcomer, in order, beside one `start` at a
 * terminal of 80 columns. The others are listed with the test that types them, or with the
 * reason why none does.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { sqlOf } from "../support/app_page.ts";
import { copyRepository } from "../support/copy_repository.ts";
import {
  docCommands,
  handlersPage,
  pages,
  readPage,
  SKILL,
  sqlBlocks,
} from "../support/docs.ts";
import { eventually } from "../support/hang_limit.ts";
import { deliver } from "../support/send.ts";
import { copyStackTemplate } from "../support/stacks.ts";
import {
  NPX,
  openTerminal,
  placeForStack,
  type Typed,
} from "../support/terminal.ts";
import { setting } from "../support/test_environment.ts";

const ELSEWHERE: readonly (readonly [commands: RegExp, where: string])[] = [
  [/^supabase (start$|functions serve$)/, "Docker"],
  [/^stripe /, "an account of Stripe's, and its CLI"],
  [/^(supabase|git|cd) ?/, "tests/deploy"],
  [
    /^npm pack |^npx --yes \S+ ((add|remove) \.( --yes)?|start)$/,
    "tests/deploy",
  ],
  [
    / STRIPE_API_KEY |^(deno task|npx --yes \S+) (import|reconcile) /,
    "tests/stripe_sync",
  ],
  [/^deno task rehearse/, "tests/integration/rehearse.test.ts"],
  [/^deno task console/, "tests/unit/console.test.ts and tests/console"],
  [/^(\w+=\w+ )?deno task test /, "the gate"],
  [/^npx -y deno@[\d.]+ task test$/, "the gate"],
  [/^deno task migration$/, "tests/deploy/migrations.test.ts"],
  [/^npx -y deno@[\d.]+ audit/, "the registry's list of advisories"],
];

const commands = docCommands();
const typed = new Set<string>();

const ofPage = (page: string) =>
  commands.filter(({ place }) => place.startsWith(`${page}:`));

function blockOf(page: string, start: string): string {
  const found = ofPage(page).find(({ text }) => text.startsWith(start));
  assert(found !== undefined, `${page} has no command ${start}`);
  const block = commands.filter(({ place }) => place === found.place)
    .map(({ text }) => text);
  block.forEach((text) => typed.add(text));
  return block.join("\n");
}

function commandOf(page: string, start: string): string {
  const texts = ofPage(page).map(({ text }) => text);
  const text = texts.find((text) => text === start) ??
    texts.find((text) => text.startsWith(start));
  assert(text !== undefined, `${page} has no command ${start}`);
  typed.add(text);
  return text;
}

function assertWorks({ code, output }: Typed, says: string): void {
  assertStringIncludes(output, says);
  assertEquals(code, 0, output);
}

Deno.test("the commands in the docs work for a newcomer", async (test) => {
  await using opened = new AsyncDisposableStack();
  const { path } = opened.use(await copyRepository());
  const { apiUrl, dbUrl, env } = await placeForStack(opened);
  // tests/deploy/npm_package.test.ts starts from nothing.
  const template = setting("TEST_STACK_TEMPLATE");
  await copyStackTemplate(template, env.BILLING_STACK_DATA);

  const { secret } = await localKeys();
  const signing = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;
  const terminal = opened.use(
    await openTerminal(path, {
      [NPX]: "deno task",
      "https://<project-ref>.supabase.co": apiUrl,
      "https://<your domain>": apiUrl,
      "<function URL>": `${apiUrl}/functions/v1/billing-webhook`,
      "<region>": "eu-central-1",
      "sb_secret_...": secret,
      "whsec_...": signing,
      "127.0.0.1:54321": new URL(apiUrl).host,
      "127.0.0.1:54322": new URL(dbUrl).host,
    }),
  );
  Object.assign(terminal.env, env);

  const type = (command: string, input = "") =>
    terminal.type(command, { input });
  const tell = (page: string, start: string) => type(commandOf(page, start));
  const settings = `${path}/supabase/functions/.env`;

  const start = commandOf("README.md", "npx -y deno@2.9.6 task start");
  const stack = opened.use(await terminal.start(start, { columns: 80 }));
  let timesServed = 0;
  /** Waits until the present settings are served, and a condition holds. */
  async function served(holds: () => Promise<boolean>) {
    const count = () =>
      stack.lines().filter((line) => line.endsWith("settings are served"))
        .length;
    await eventually(() => count() > timesServed);
    timesServed = count();
    await eventually(holds);
  }
  const works = (command: string) => async () =>
    (await type(command)).code === 0;

  await test.step("README: two commands, and a look at the table", async () => {
    const first = await tell("README.md", "npx -y deno@2.9.6 task trigger");
    assertWorks(first, "200 OK");
    assertStringIncludes(
      first.output,
      "applied. The row in billing.subscriptions:",
    );
    assertWorks(await tell("README.md", "psql"), '"status":"active"');

    const canceled = "customer.subscription.deleted";
    assertStringIncludes(readPage("README.md"), `\`${canceled}\``);
    assertWorks(await type(`deno task trigger ${canceled}`), "200 OK");
    assertWorks(await tell("README.md", "psql"), '"status":"canceled"');
    const line = /^\d\d:\d\d:\d\d 200 applied .* sub_local_a .* \d+ ms$/;
    await stack.line(line);
  });

  await test.step("a saved change is served, also after a mistake", async () => {
    const file = `${path}/supabase/functions/billing-webhook/handle_webhook.ts`;
    const code = await Deno.readTextFile(file);
    /** Saves the file, if need be again: Deno misses some saves while it restarts. */
    const saved = async (
      text: string,
      isServed: (reply: Awaited<ReturnType<typeof deliver>>) => boolean,
    ) => {
      const ignored = { id: "evt_ignored", type: "plan.created" };
      const webhook = `${apiUrl}/functions/v1/billing-webhook`;
      let savedAt = -Infinity;
      await eventually(async () => {
        if (performance.now() > savedAt + 5_000) {
          await Deno.writeTextFile(file, text);
          savedAt = performance.now();
        }
        return isServed(await deliver(webhook, ignored));
      });
    };

    const changed = code.replace('"OK"', '"OK, changed"');
    await saved(changed, ({ body }) => body === "OK, changed");
    const why = /SyntaxError: Expression expected/;
    await saved(
      `${code}\nconst x = ;\n`,
      ({ status }) =>
        status === 503 && stack.lines().some((it) => why.test(it)),
    );
    await saved(code, ({ body }) => body === "OK");
  });

  await test.step("deploy.md and stripe.md: settings in a file", async () => {
    assertWorks(await tell("docs/deploy.md", "echo "), "");
    // The secret that is in use without any file would prove nothing.
    const text = await Deno.readTextFile(settings);
    const changed = text.replace(signing, "whsec_only_in_the_file");
    await Deno.writeTextFile(settings, changed);
    await served(works(commandOf("docs/deploy.md", `${NPX} trigger`)));
    assertWorks(await tell("docs/deploy.md", `${NPX} doctor`), "0 FAIL");

    await Deno.remove(settings);
    assertWorks(await type(blockOf("docs/stripe.md", "echo PROVIDER_A")), "");
    await served(works("deno task trigger invoice.payment_failed"));
    await stack.line(/ notified +payment of €\d+\.\d\d failed for acc_/);
  });

  await test.step("the doctor's output has nothing of what is pasted", async () => {
    const block = blockOf("docs/deploy.md", `${NPX} doctor --url`);
    const ofRewrites = commandOf(
      "docs/deploy.md",
      `${NPX} doctor --url https://<your domain>`,
    );
    const pasted = `${secret}\n${dbUrl}\n${signing}\n`;
    const { code, output } = await type(`${block}\n${ofRewrites}`, pasted);
    assertWorks({ code, output }, "13 ok, 0 FAIL, 2 skipped");
    for (const hidden of [secret, signing, dbUrl]) {
      assertEquals(
        output.includes(hidden),
        false,
        `${hidden} is in: ${output}`,
      );
    }

    const rotation = blockOf("SECURITY.md", "deno task doctor");
    assertWorks(await type(rotation, signing), "0 FAIL");
    await Deno.remove(settings);
  });

  await test.step("app.md: a user is shown their own account, and no other", async () => {
    const page = "docs/app.md";
    assertWorks(await tell(page, "psql"), "");
    const psql = commandOf("docs/handlers.md", "psql");
    assertWorks(await type(psql, sqlOf('"Users read')), "");
    const token = blockOf(page, "token=");
    assertWorks(await type(token), '"access": false');
    const [, account = ""] = /account_id=([-\d]+)/.exec(token) ?? [];
    const ask = commandOf(page, "curl -s -H 'apikey")
      .replace("acc_local", account);
    assertWorks(await type(ask), '"access": false');

    assertWorks(await tell(page, "deno task trigger"), "200 OK");
    const asUser = await type(token);
    assertMatch(asUser.output, /"access": true.*"plan_id": "price_pro"/);
    assertStringIncludes(asUser.output, (await type(ask)).output);
    const other = token.replace(account, crypto.randomUUID());
    assertWorks(await type(other), '"access": false');

    const update = "deno task trigger customer.subscription.updated --status";
    assertWorks(await tell(page, `${update} past_due`), "200 OK");
    assertWorks(await type(token), '"status": "past_due"');
    assertWorks(await tell(page, `${update} active`), "200 OK");
    assertWorks(await type(token), '"cancel_at": "2031-01-31T');
    assertWorks(await tell(page, `${update} active --cancel-at=`), "200 OK");
    assertWorks(await type(token), '"cancel_at": null');
  });

  await test.step("operate.md: an event that fails", async () => {
    const { output } = await tell("docs/operate.md", "deno task trigger");
    assertStringIncludes(output, "422 Event is not valid");
    assertMatch(output, /error_code +account_unknown/);
    // The worker, which start wakes, alerts; a failure that may heal raises no alert yet.
    await stack.line(/ alert +account_unknown: \d new, \d open/);
  });

  await test.step("handlers.md: a function of one's own, in a minute", async () => {
    const psql = commandOf("docs/handlers.md", "psql");
    const [first = ""] = handlersPage().handlers;
    assertWorks(await type(psql, first), "");
    assertWorks(await tell("docs/handlers.md", "echo HANDLE"), "");
    await served(async () => {
      const { code } = await tell("docs/handlers.md", "deno task trigger");
      const { output } = await type(psql, "select * from failed_payments;");
      return code === 0 && output.includes('"failed_at":');
    });
  });

  await test.step("SKILL.md: a table for those who pay, and a handler with its test", async () => {
    const psql = commandOf("docs/handlers.md", "psql");
    const [gate, handler, itsTest = ""] = sqlBlocks(readPage(SKILL), SKILL)
      .map(({ sql }) => sql);
    const made = `
      create table public.documents as select 'for those who pay' as title;
      create policy "All" on public.documents to authenticated using (true);
      alter table public.documents enable row level security;
      grant select on public.documents to authenticated;
      drop policy "Users read their own subscriptions" on billing.subscriptions;
      ${gate} ${handler}`;
    assertWorks(await type(psql, made), "");
    const account = crypto.randomUUID();
    const read = `
      set request.jwt.claims = '{"sub": "${account}"}';
      set role authenticated;
      table public.documents;`;
    const isShown = async () =>
      (await type(psql, read)).output.includes("for those who pay");

    assertEquals(await isShown(), false);
    const trigger = commandOf(SKILL, `${NPX} trigger`);
    assertWorks(await type(trigger.replace("<user id>", account)), "200 OK");
    assertEquals(await isShown(), true);

    await Deno.mkdir(`${path}/tests`, { recursive: true });
    await Deno.writeTextFile(`${path}/tests/credits.sql`, itsTest);
    assertWorks(await tell(SKILL, "psql"), "");
  });

  await test.step("providers.md: a first event of Paddle's", async () => {
    const page = "docs/providers.md";
    assertWorks(await tell(page, "echo PROVIDER_A"), "");
    await served(async () => {
      const { code, output } = await tell(page, "deno task trigger");
      return code === 0 && output.includes("(paddle)");
    });
  });

  await test.step("README: reset; no line was wider than the terminal", async () => {
    // Deno's own messages may have long paths.
    const wide = stack.lines().filter((line) =>
      line.length >= 80 && !/^ +(?:at .*)?[("]?(?:file:)?\//.test(line)
    );
    assertEquals(wide, []);
    assertEquals(await stack.stop(), []);
    assertWorks(await type("deno task reset"), "Emptied");
    assertEquals(existsSync(env["BILLING_STACK_DATA"]!), false);
  });
});

Deno.test("every command in the docs is typed, or listed with a reason", () => {
  const missing = commands.filter(({ text }) =>
    !typed.has(text) && text !== "deno task start" &&
    !ELSEWHERE.some(([commands]) => commands.test(text))
  );
  assertEquals(missing, []);
});

Deno.test("every link in the docs leads to a page and a heading", () => {
  let found = 0;
  for (const page of pages()) {
    const links = readPage(page).matchAll(
      /\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g,
    );
    for (const [link, path, anchor = ""] of links) {
      const to = path ? join(dirname(page), path) : page;
      assert(existsSync(to), `${page}: ${link}`);
      if (anchor === "") continue;
      // As links to headings are spelled.
      const text = readPage(to).toLowerCase()
        .replaceAll(/[^a-z0-9 _#\n-]/g, "").replaceAll(" ", "-");
      assert(text.includes(`#-${anchor}\n`), `${page}: ${link}`);
      found++;
    }
  }
  assert(found > 50, `${found}`);
});
