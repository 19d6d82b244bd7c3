/**
 * The console in a real browser: each page, each action and what it changes in the
 * database, and payloads that are made to harm.
 *
 * With SCREENSHOT set, it also takes the picture in docs/images.
 */
import chromium, { inflate } from "@sparticuz/chromium";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import puppeteer, { type Browser } from "puppeteer-core";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { serveConsole } from "../../scripts/console.ts";
import { invoiceEvent } from "../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { edited } from "../support/edited.ts";
import { eventually } from "../support/hang_limit.ts";
import { serveHere } from "../support/machine.ts";
import { startNotifiedEndpoint } from "../support/notified.ts";
import { startOwnStack } from "../support/stacks.ts";
import { deliver } from "../support/send.ts";
import { failureOf, recordFailure } from "../support/queues.ts";

const IMAGE = new URL("../../docs/images/console_failure.png", import.meta.url);
const CREATED = Math.floor(Date.now() / 1000) - 600;
const subscription = "sub_1SWk2dLkdIwHu7ixRh3vJr0q";
const creation = edited(
  subscriptionEvent("customer.subscription.created", {
    id: "evt_1SWk2eLkdIwHu7ixNoAcct01",
    subscription,
    created: CREATED,
  }),
  { "data.object.metadata": {} },
);
const update = subscriptionEvent("customer.subscription.updated", {
  subscription,
  created: CREATED + 30,
});
const invoice = invoiceEvent({ subscription, created: CREATED + 60 });
const lateInvoice = invoiceEvent({ subscription, created: CREATED + 90 });
const lateUpdate = subscriptionEvent("customer.subscription.updated", {
  subscription,
  created: CREATED + 90,
});

const SCRIPT =
  `"'></textarea></pre></title><script>alert(1)</script><img src="https://evil.example/x" onerror="alert(2)"><svg onload=alert(3)>`;
const MIB = 1024 * 1024;
const HOSTILE: Readonly<Record<string, string>> = {
  [`evt_${SCRIPT}`]: JSON.stringify({ id: SCRIPT, type: SCRIPT, [SCRIPT]: 1 }),
  "evt_\u202eabc\u200b\u2066": JSON.stringify({ a: "\u202e\u0007\u001b[2J\r" }),
  "evt_nul": '{"a": "\\u0000"}',
  "evt_1_mib": JSON.stringify({ a: `<b>${"x".repeat(MIB)}` }),
  "evt_deep": "[".repeat(3_000) + "]".repeat(3_000),
  "evt_numbers": '{"a": 12345678901234567890, "b": 0.10}',
  "evt_/?&#%2F": '"</pre>"',
};

function pathOf(event: string): string {
  return `/failure?${new URLSearchParams({ provider: "a", event })}`;
}

Deno.test("the console in a browser", async (test) => {
  await using endpoint = startNotifiedEndpoint();
  // First, since a machine may lack what it needs.
  const browser = await startBrowser();
  await using opened = new AsyncDisposableStack();
  opened.defer(() => browser.close());

  const { sql, stack } = opened.use(
    await startOwnStack({ env: endpoint.env }),
  );
  const secretKey = (await localKeys()).secret;
  const access = { projectUrl: stack.urls.api, secretKey };
  await using running = serveConsole(access, 0);
  const visitor = await enterConsole(browser, running.link);
  const { page, open, tabTo, enter, texts } = visitor;

  async function save(text: string): Promise<string> {
    await tabTo("main > details > summary");
    const isOpen = (await page.$$("main > details[open]")).length > 0;
    if (!isOpen) await page.keyboard.press("Enter");
    await tabTo("textarea");
    await page.keyboard.down("Control");
    await page.keyboard.press("KeyA");
    await page.keyboard.up("Control");
    await page.keyboard.sendCharacter(text);
    return await enter("form[action='/failure/repair'] button");
  }

  await test.step("the link works from another website", async () => {
    await using fresh = serveConsole(access, 0);
    const body = `<a href="${fresh.link}">link</a>`;
    const headers = { "content-type": "text/html" };
    await using server = serveHere(() => new Response(body, { headers }));
    const terminal = await browser.newPage();
    await terminal.goto(server.url.replace("127.0.0.1", "localhost"));
    await terminal.click("a");
    await terminal.waitForSelector("h1 + .grid");
    assertEquals(new URL(terminal.url()).search, "");
    await terminal.close();
  });

  await test.step("by keyboard alone: repaired, retried, applied", async () => {
    assertStringIncludes(await open("/"), "Nothing is failing");
    for (const event of [creation, invoice, update]) {
      await deliver(stack.urls.webhook, event);
    }
    assertStringIncludes(await open("/"), "3 events have failed");

    const list = await enter("a[href='/failures?code=account_unknown']");
    assertStringIncludes(list, "1 failure matches");
    const why = await enter(`a[href*="${creation.id}"]`);
    assertStringIncludes(why, "data.object.metadata.accountId is missing");
    assertStringIncludes(why, "Add the account to the payload");

    const account = "data.object.metadata.accountId";
    const broken = JSON.stringify(edited(creation, { [account]: "" }));
    assertStringIncludes(await save(broken), "accountId is missing");
    assertEquals(await texts("textarea"), [broken]);
    assertEquals((await failureOf(sql, creation.id)).original_payload, null);

    const repaired = edited(creation, { [account]: "acc_42" });
    await open(pathOf(creation.id));
    await tabTo("[name=account]");
    await page.keyboard.type("acc_42");
    const saved = await enter("[name=account]");
    assertStringIncludes(saved, "Saved. Now retry the event");

    const row = await failureOf(sql, creation.id);
    assertEquals(row.payload, JSON.parse(JSON.stringify(repaired)));
    assertEquals(row.original_payload, JSON.parse(JSON.stringify(creation)));
    const added = (await texts("pre ins")).join("");
    assertStringIncludes(added, '"accountId": "acc_42"');
    if (Deno.env.get("SCREENSHOT")) {
      await page.setViewport({ width: 1180, height: 1400 });
      await Deno.writeFile(IMAGE, await page.screenshot({ type: "png" }));
    }

    const retried = await enter("form[action='/failure/retry'] button");
    assertStringIncludes(retried, "Retried: applied.");
    assertEquals((await failureOf(sql, creation.id)).resolution, "applied");
  });

  await test.step("all that match a filter are retried, and no others", async () => {
    // What waited for the creation has healed by itself.
    for (const { id } of [invoice, update]) {
      await eventually(async () => (await failureOf(sql, id)).resolved_at);
    }
    for (const event of [lateInvoice, lateUpdate]) {
      await recordFailure(sql, {
        event_id: event.id,
        body: JSON.stringify(event),
        error_code: "apply_failed",
        type: event.type,
        kind: "update",
        subscription_id: subscription,
      });
    }

    await open("/failures");
    await page.click("summary");
    await page.select("[name=code]", "apply_failed");
    await page.select("[name=type]", "invoice.payment_failed");
    const list = await enter("details form button");
    assertStringIncludes(list, "1 failure matches");

    await tabTo("details:has(form[action='/failures/retry']) > summary");
    await page.keyboard.press("Enter");
    const done = await enter("form[action='/failures/retry'] button");
    assertStringIncludes(done, "Retry requested: 1.");
    assertEquals((await failureOf(sql, lateInvoice.id)).resolution, "applied");
    assertEquals((await failureOf(sql, lateUpdate.id)).attempts, 1);
  });

  await test.step("a failure is resolved, and opened again", async () => {
    await open(pathOf(lateUpdate.id));
    await tabTo("[name=reason]");
    await page.keyboard.type("it's a test; <b>");
    await tabTo("[name=who]");
    await page.keyboard.type("Kim");
    assertStringIncludes(await enter("[name=who]"), "it's a test; <b>");
    assertEquals((await failureOf(sql, lateUpdate.id)).resolution, "by hand");

    assertStringIncludes(await open("/failures?state=resolved"), lateUpdate.id);
    await open(pathOf(lateUpdate.id));
    const reopened = await enter("form[action='/failure/reopen'] button");
    assertStringIncludes(reopened, "It is open again.");
    assertEquals((await failureOf(sql, lateUpdate.id)).resolved_at, null);
  });

  await test.step("a notification that was given up is sent again", async () => {
    await sql`
      insert into billing.notifications
        (provider, event_id, account_id, subscription_id, status, attempts, last_error)
      values
        ('a', 'evt_dead', 'acc_42', ${subscription}, 'dead', 10, 'HTTP 500 <b>')`;
    assertStringIncludes(await open("/"), "1 notification given up");
    assertStringIncludes(await open("/notifications"), "HTTP 500 <b>");
    assertStringIncludes(
      await enter("td form button"),
      "1 notification made due again",
    );
    const [row] = await sql`
      select status from billing.notifications where event_id = 'evt_dead'`;
    assertEquals(row?.["status"], "sent");
  });

  await test.step("a subscription is found by each ID", async () => {
    await sql`
      update billing.subscriptions set customer_id = 'cus_42'
      where id = ${subscription}`;
    const shown = await open(`/search?q=${subscription}`);
    const { price } = update.data.object.items.data[0];
    const others = [creation.id, lateUpdate.id, "HTTP 500"];
    for (const part of ["acc_42", price.id, price.product, ...others]) {
      assertStringIncludes(shown, part);
    }
    for (const id of ["acc_42", "cus_42"]) {
      const found = await open(`/search?q=${id}`);
      assertMatch(found, /Has access: (?:yes|no)/);
      assertStringIncludes(found, subscription);
    }
    await open("/");
    await page.type("[name=q]", creation.id);
    assertStringIncludes(await enter("header button"), "was handled");
  });

  await test.step("an unknown account is granted a plan, which is ended", async () => {
    await sql`
      insert into billing.plan_features values ('price_<b>', 'seats', 3)`;
    await open("/search?q=acc_new");
    await tabTo("summary");
    await page.keyboard.press("Enter");
    await page.type("[name=plan_id]", "price_<b>");
    await page.$eval("input[name=until]", (field) => {
      field.value = "2999-01-31T10:00";
    });
    await page.type("[name=reason]", "a friend");
    await page.type("[name=who]", "Kim");
    const granted = await enter("[name=who]");
    for (
      const part of [
        "Done: grant_",
        "Has access: yes, until 2999-01-31 10:00:00 UTC",
        "manual",
        "Features: seats 3",
        "by Kim",
      ]
    ) assertStringIncludes(granted, part);

    await page.click("summary");
    await page.type("[name=reason]", "no friend");
    await page.type("[name=who]", "Alex");
    const ended = await enter("[name=who]");
    for (const part of ["Has access: no", "canceled", "by Alex: no friend"]) {
      assertStringIncludes(ended, part);
    }
  });

  await test.step("hostile payloads do no harm", async () => {
    for (const [event_id, body] of Object.entries(HOSTILE)) {
      await recordFailure(sql, {
        event_id,
        body,
        error_code: "event_invalid",
        error: SCRIPT,
        type: SCRIPT,
      });
      assertStringIncludes(await open(pathOf(event_id)), "Why it failed");
      await assertWellMade(visitor);
    }
    assertStringIncludes(await open("/failures"), SCRIPT);

    await open(pathOf("evt_numbers"));
    const before =
      `{"id": "evt_numbers", "type": "customer.subscription.deleted", "data": {"object": {"id": "sub_r"}}, "n": `;
    assertStringIncludes(await save(`${before}"\\u0000"}`), "Unicode escape");
    const saved = await save(`${before}12345678901234567890.10}`);
    assertStringIncludes(saved, "Saved.");
    assertStringIncludes(saved, "12345678901234567890.10");
  });

  await test.step("every page is whole, on a phone and on a screen", async () => {
    const [hostile = ""] = Object.keys(HOSTILE);
    const paths = [
      "/",
      "/failures?code=event_invalid",
      "/failures?state=resolved",
      "/notifications",
      "/nowhere",
      `/search?q=${subscription}`,
      "/search?q=acc_new",
      pathOf(creation.id),
      pathOf(lateUpdate.id),
      pathOf(hostile),
    ];
    for (const width of [360, 1280]) {
      await page.setViewport({ width, height: 740 });
      for (const path of paths) {
        await open(path);
        await page.$$eval("summary", (all) => all.forEach((it) => it.click()));
        await assertWellMade(visitor);
      }
    }
  });

  // In the whole visit, nothing ran, nothing was loaded, nothing was blocked.
  const harmless = / 4\d\d | 50\d /;
  assertEquals(visitor.faults.filter((fault) => !harmless.test(fault)), []);
});

/** What Chromium needs besides the C library, as the package brings it. */
const LIBRARIES = fileURLToPath(
  new URL("../bin/al2023.tar.br", import.meta.resolve("@sparticuz/chromium")),
);

/** Starts a Chromium from npm that needs no fonts, and no library but the C library. */
async function startBrowser(): Promise<Browser> {
  const home = await Deno.makeTempDir();
  const fonts = `${home}/fonts.conf`;
  // The package's own configuration looks for its font in /tmp, and a browser
  // without any font ends. For a picture, the machine's fonts are used.
  await Deno.writeTextFile(
    fonts,
    `<fontconfig><dir>${tmpdir()}/fonts</dir><cachedir>${home}/cache</cachedir></fontconfig>`,
  );
  try {
    return await puppeteer.launch({
      executablePath: await chromium.executablePath(),
      headless: "shell",
      userDataDir: home,
      // The tests may run as root, and the sandbox needs rights of the kernel.
      args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
      env: {
        HOME: home,
        PATH: Deno.env.get("PATH"),
        TMPDIR: tmpdir(),
        ...(!Deno.env.get("SCREENSHOT") && { FONTCONFIG_FILE: fonts }),
        LD_LIBRARY_PATH: `${await inflate(LIBRARIES)}/lib`,
      },
    });
  } catch (error) {
    throw new Error(
      `Cannot start the browser for the console's tests (@sparticuz/chromium, Linux x64 only). If this names a shared library, install it: ${error}`,
    );
  }
}

type Visitor = Awaited<ReturnType<typeof enterConsole>>;

async function enterConsole(browser: Browser, link: string) {
  const page = await (await browser.createBrowserContext()).newPage();
  const { origin } = new URL(link);

  /** What the pages did that they must not do. */
  const faults: string[] = [];
  page.on("console", (message) => faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error}`));
  page.on("dialog", async (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(`${origin}/`);
    // A data: URL is the browser's own icon, or the policy reports it.
    if (!isOwn && !request.url().startsWith("data:")) {
      faults.push(`request: ${request.url()}`);
    }
  });
  // The policy does not hold for what the tests themselves run in the page.
  await page.evaluateOnNewDocument(`
    addEventListener("securitypolicyviolation", (event) =>
      console.error("policy", event.effectiveDirective, event.blockedURI));
  `);
  await page.goto(link);

  const text = () => page.$eval("body", (body) => body.innerText);

  async function open(path: string): Promise<string> {
    await page.goto(origin + path);
    return await text();
  }

  async function tabTo(selector: string): Promise<void> {
    const isThere = `document.activeElement.matches(${
      JSON.stringify(selector)
    })`;
    for (let i = 0; i < 80; i++) {
      if (await page.evaluate(isThere)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`No ${selector} gets the focus on ${page.url()}`);
  }

  async function enter(selector: string): Promise<string> {
    await tabTo(selector);
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    // Else a key may come before the browser gives the focus.
    await page.waitForSelector("body:not(:has([autofocus]:not(:focus)))");
    return await text();
  }

  async function texts(selector: string): Promise<string[]> {
    return await page.$$eval(
      selector,
      (shown) => shown.map(({ textContent }) => textContent ?? ""),
    );
  }

  return { page, faults, open, tabTo, enter, texts };
}

const LOOK = `(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const html = (elements) => elements.map(({ outerHTML }) => outerHTML);
  return {
    headings: all("h1").length,
    active: html(all(
      "script, img, iframe, object, embed, [style]")),
    handlers: html(all("*").filter((element) =>
      element.getAttributeNames().some((name) => name.startsWith("on")))),
    unlabelled: html(all("input:not([type=hidden]), select, textarea")
      .filter((field) => !field.labels.length && !field.ariaLabel)),
    nameless: html(all("a, button").filter((one) => !one.textContent.trim())),
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    squeezed: html(all("td").filter((cell) =>
      cell.clientHeight > 2 * cell.clientWidth)),
  };
})()`;

async function assertWellMade({ page }: Visitor): Promise<void> {
  assertEquals(await page.evaluate(LOOK), {
    headings: 1,
    active: [],
    handlers: [],
    unlabelled: [],
    nameless: [],
    overflow: 0,
    squeezed: [],
  }, page.url());
}
