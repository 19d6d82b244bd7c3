/**
 * The console in a real browser, in front of a stack of its own: each page, each
 * action and what it changes in the database, and payloads that are made to harm.
 *
 * With SCREENSHOT set, it also takes the picture in docs/images.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { HIDDEN } from "../../scripts/console/visible.ts";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { deliver } from "../support/send.ts";
import { failureOf } from "../support/triage.ts";
import { subscriptionRecord } from "../support/tables.ts";
import { HOSTILE_FAILURES, storeHostileFailures } from "./hostile_failures.ts";
import { openStage } from "./stage.ts";
import { assertWellMade, enterConsole, type Visitor } from "./visitor.ts";

const IMAGE = new URL("../../docs/images/console_failure.png", import.meta.url);
const CREATED = Math.floor(Date.now() / 1000) - 600;
const creation = edited(
  subscriptionEvent("customer.subscription.created", {
    id: "evt_1SWk2eLkdIwHu7ixNoAcct01",
    subscription: "sub_1SWk2dLkdIwHu7ixRh3vJr0q",
    created: CREATED,
  }),
  { "data.object.metadata": {} },
);
const subscription = "sub_1SWk2dLkdIwHu7ixRh3vJr0q";
const invoice = invoiceEvent({ subscription, created: CREATED + 60 });
const update = subscriptionEvent("customer.subscription.updated", {
  subscription,
  created: CREATED + 30,
});

/** Returns the path of a failure's page. */
function pathOf(id: string, path = "/failure"): string {
  return `${path}?${new URLSearchParams({ provider: "a", event: id })}`;
}

/** Replaces the text that is edited, with the keyboard alone. */
async function typeOver({ page, tabTo }: Visitor, text: string): Promise<void> {
  await tabTo("#text");
  await page.keyboard.down("Control");
  await page.keyboard.press("KeyA");
  await page.keyboard.up("Control");
  await page.keyboard.sendCharacter(text);
}

/** Tabs from the end of the text to the button, and sends the form. */
async function save({ tabTo, enter }: Visitor): Promise<string> {
  await tabTo("main button.main");
  return await enter();
}

Deno.test("the console in a browser", async (test) => {
  await using stage = await openStage();
  const { sql, stack, browser } = stage;
  await using running = await stage.startConsole();
  const visitor = await enterConsole(browser, running.link);
  const { page, open, text, tabTo, enter } = visitor;

  await test.step("the link is exchanged for a cookie, and works once", async () => {
    assertEquals(new URL(page.url()).search, "");
    const other = await enterConsole(browser, running.link);
    assertStringIncludes(await other.text(), "Not let in");
    assertEquals((await other.page.cookies()).length, 0);
    const [cookie] = await page.cookies();
    assertEquals([cookie?.httpOnly, cookie?.sameSite], [true, "Strict"]);
  });

  await test.step("the link works in a page of another website, as in a terminal in a browser", async () => {
    await using fresh = await stage.startConsole();
    await using server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      () =>
        new Response(`<a href="${fresh.link}">link</a>`, {
          headers: { "content-type": "text/html" },
        }),
    );
    const context = await browser.createBrowserContext();
    const terminal = await context.newPage();
    // Another site than 127.0.0.1.
    await terminal.goto(`http://localhost:${server.addr.port}/`);
    await terminal.click("a");
    await terminal.waitForSelector("h1 + .tiles");
    assertEquals(new URL(terminal.url()).search, "");
    await context.close();
  });

  await test.step("empty pages say that nothing is wrong", async () => {
    assertStringIncludes(await open("/"), "Nothing is failing");
    assertStringIncludes(await open("/failures"), "No open failure matches");
    assertStringIncludes(await open("/notifications"), "There is none");
    assertStringIncludes(await open("/search?q=sub_x"), "Nothing has this ID");
    assertStringIncludes(await open("/subscription?id=sub_x"), "no record");
    assertStringIncludes(await open(pathOf("evt_x")), "Not found");
    for (const event of [creation, invoice, update]) {
      await deliver(stack.urls.webhook, event);
    }
  });

  await test.step("by keyboard alone: why it failed, repaired, retried, applied", async () => {
    assertStringIncludes(await open("/"), "3 events have failed");
    await tabTo('a[href="/failures?code=event_invalid"]');
    assertStringIncludes(await enter(), "1 failure matches");
    await tabTo(`a[href*="${creation.id}"]`);
    const why = await enter();
    assertStringIncludes(why, "data.object.metadata.accountId is missing");
    assertStringIncludes(why, "repair the payload and retry");
    await tabTo('a[href^="/failure/repair"]');
    await enter();

    const broken = JSON.stringify(
      edited(creation, { "data.object.metadata.accountId": "" }),
    );
    await typeOver(visitor, broken);
    const refused = await save(visitor);
    assertStringIncludes(refused, "accountId: must not be blank");
    assertEquals(
      await page.evaluate(`document.querySelector("#text").value`),
      broken,
    );
    assertEquals((await failureOf(sql, creation.id)).original_payload, null);

    const repaired = edited(creation, {
      "data.object.metadata.accountId": "acc_42",
    });
    await typeOver(visitor, JSON.stringify(repaired, null, 2));
    assertStringIncludes(await save(visitor), "Saved. Now retry the event");
    const row = await failureOf(sql, creation.id);
    assertEquals(row.payload, JSON.parse(JSON.stringify(repaired)));
    assertEquals(row.original_payload, JSON.parse(JSON.stringify(creation)));
    assertEquals(
      await page.$$eval(
        ".changed .after span",
        (cells) => cells.map(({ textContent }) => textContent?.trim()),
      ),
      ['"metadata": {', '"accountId": "acc_42"', "},"],
    );
    if (Deno.env.get("SCREENSHOT")) await takePicture(visitor);

    await tabTo('form[action="/failure/retry"] button');
    assertStringIncludes(await enter(), "Retried: applied.");
    assertEquals((await failureOf(sql, creation.id)).resolution, "applied");
    assertEquals(
      (await subscriptionRecord(sql, subscription))?.["account_id"],
      "acc_42",
    );
  });

  await test.step("all that match a filter are retried, and no others", async () => {
    const other = subscriptionEvent("customer.subscription.deleted");
    await deliver(stack.urls.webhook, other);
    await open("/failures");
    await page.click("summary");
    await page.select("#code", "subscription_unknown");
    await page.select("#type", "invoice.payment_failed");
    await tabTo("form.filter button");
    assertStringIncludes(await enter(), "1 failure matches");
    await tabTo('a[href^="/failures/retry"]');
    assertStringIncludes(await enter(), "Retry 1 open failure");
    assertEquals(
      await page.$eval(".copyable", (shown) => shown.textContent),
      "select billing.retry_failed_events(of_type => 'invoice.payment_failed', of_error_code => 'subscription_unknown');",
    );
    await tabTo("button.main");
    assertStringIncludes(await enter(), "Retry requested: 1.");
    assertEquals((await failureOf(sql, invoice.id)).resolution, "applied");
    assertEquals((await failureOf(sql, update.id)).resolved_at, null);
    assertEquals((await failureOf(sql, other.id)).attempts, 1);

    await open(pathOf(other.id));
    await tabTo('form[action="/failure/retry"] button');
    assertStringIncludes(
      await enter(),
      "it failed again: subscription_unknown",
    );
    assertEquals((await failureOf(sql, other.id)).attempts, 2);
  });

  await test.step("a failure is resolved with a name and a reason, and opened again", async () => {
    await open(pathOf(update.id));
    await tabTo("#reason");
    await page.keyboard.type("it's a test; <b>");
    await tabTo("#who");
    await page.keyboard.type("Kim");
    const resolved = await enter();
    assertStringIncludes(resolved, "Resolved by hand");
    assertStringIncludes(resolved, "it's a test; <b>");
    const row = await failureOf(sql, update.id) as unknown as Record<
      string,
      unknown
    >;
    assertEquals(
      [row["resolution"], row["resolution_note"], row["resolved_by"]],
      ["by hand", "it's a test; <b>", "Kim"],
    );
    assertStringIncludes(await open("/failures?state=resolved"), update.id);
    await open(pathOf(update.id));
    await tabTo('form[action="/failure/reopen"] button');
    assertStringIncludes(await enter(), "It is open again.");
    assertEquals((await failureOf(sql, update.id)).resolved_at, null);
  });

  await test.step("the statements that are shown run as they are", async () => {
    await open(pathOf(update.id));
    const [retry, resolve] = await page.$$eval(
      ".copyable",
      (shown) => shown.map(({ textContent }) => textContent ?? ""),
    );
    await sql.unsafe(retry ?? "");
    assert((await failureOf(sql, update.id)).retry_requested_at !== null);
    await sql.unsafe(resolve ?? "");
    assertEquals((await failureOf(sql, update.id)).resolution, "by hand");
    await open(pathOf(update.id));
    const reopen = await page.$eval(".copyable", (shown) => shown.textContent);
    await sql.unsafe(reopen ?? "");
    assertEquals((await failureOf(sql, update.id)).resolved_at, null);
    await open(pathOf(update.id, "/failure/repair"));
    const repair = await page.$eval(".copyable", (shown) => shown.textContent);
    await sql.unsafe(repair ?? "");
    assertEquals((await failureOf(sql, update.id)).original_payload, null);
  });

  await test.step("notifications that were given up are sent again", async () => {
    await sql`
      insert into billing.notifications
        (provider, event_id, account_id, subscription_id, status, attempts, last_error)
      values
        ('a', 'evt_dead', 'acc_42', ${subscription}, 'dead', 10, 'HTTP 500 <b>'),
        ('a', 'evt_address', 'acc_43', 'sub_43', 'undeliverable', 1, null)`;
    assertStringIncludes(await open("/"), "2 notifications were given up");
    const list = await open("/notifications");
    assertStringIncludes(list, "HTTP 500 <b>");
    await open("/notifications?status=dead");
    const [statement] = await page.$$eval(
      "td .copyable",
      (shown) => shown.map(({ textContent }) => textContent ?? ""),
    );
    await tabTo("td form button");
    assertStringIncludes(await enter(), "1 made due again");
    const statuses = () =>
      sql`
        select event_id, status, attempts from billing.notifications
        where event_id in ('evt_dead', 'evt_address') order by event_id desc`;
    assertEquals((await statuses()).map((row) => row["status"]), [
      "sent",
      "undeliverable",
    ]);
    await open("/notifications");
    await tabTo("form.action button");
    assertStringIncludes(await enter(), "1 made due again");
    assertEquals((await statuses()).map((row) => row["status"]), [
      "sent",
      "sent",
    ]);
    assertEquals((await sql.unsafe(statement ?? "")).count, 0);
  });

  await test.step("a subscription has its record, failures and notifications, and is found by each ID", async () => {
    const shown = await open(`/subscription?id=${subscription}`);
    for (const part of ["acc_42", creation.id, update.id, "HTTP 500"]) {
      assertStringIncludes(shown, part);
    }
    await sql`
      update billing.subscriptions set customer_id = 'cus_42'
      where id = ${subscription}`;
    for (const id of [subscription, "acc_42", "cus_42"]) {
      await open("/");
      await page.type("#q", id);
      await tabTo("header button");
      assertStringIncludes(await enter(), subscription);
    }
    const found = await open(`/search?q=${creation.id}`);
    assertStringIncludes(found, "was handled");
    assertStringIncludes(found, "Failures");
  });

  await test.step("hostile payloads do no harm, and are shown as they are", async () => {
    await storeHostileFailures(sql);
    await open("/");
    await assertWellMade(visitor);
    await open("/failures");
    await assertWellMade(visitor);
    for (const { id } of HOSTILE_FAILURES) {
      const shown = await open(pathOf(id));
      assertStringIncludes(shown, "Why it failed");
      await assertWellMade(visitor);
      const [row] = await sql`
        select payload::text as payload from billing.failed_events
        where event_id = ${id}`;
      assertEquals(await downloadOf(visitor, id), row?.["payload"]);
    }
    const script = HOSTILE_FAILURES[0]!.id;
    assertStringIncludes(await open(pathOf(script)), script);
    const list = await open("/failures");
    assertEquals(HIDDEN.test(list.replaceAll(/[\t\n]/g, "")), false);
    assertStringIncludes(
      await open(pathOf("evt_large_numbers")),
      "12345678901234567890",
    );
    assertStringIncludes(
      await open(pathOf("evt_nul")),
      "cannot store this body as JSON",
    );
  });

  await test.step("hostile payloads can be edited, and large numbers stay as they are", async () => {
    for (const { id } of HOSTILE_FAILURES) {
      await open(pathOf(id, "/failure/repair"));
      await assertWellMade(visitor);
    }
    const before =
      `{"id": "evt_large_numbers", "type": "customer.subscription.deleted", "data": {"object": {"id": "sub_r"}}, "n": `;
    for (
      const [number, expected] of [
        ["1e400}", "a number of more than 40 digits"],
        [`1e131072}`, "overflow"],
        [`"\\u0000"}`, "Unicode escape"],
      ] as const
    ) {
      await open(pathOf("evt_large_numbers", "/failure/repair"));
      await typeOver(visitor, before + number);
      const refused = await save(visitor);
      assertStringIncludes(refused, "Not saved");
      assertStringIncludes(refused, expected);
    }
    await typeOver(visitor, `${before}12345678901234567890.10}`);
    assertStringIncludes(await save(visitor), "Saved.");
    const [row] = await sql`
      select payload::text as payload from billing.failed_events
      where event_id = 'evt_large_numbers'`;
    assertStringIncludes(row?.["payload"], '"n": 12345678901234567890.10');
    assertStringIncludes(await text(), "12345678901234567890.10");
  });

  await test.step("every page is whole on a phone, in both color schemes", async () => {
    const paths = [
      "/",
      "/hours",
      "/failures",
      "/failures?state=resolved",
      "/failures/retry?code=event_invalid",
      pathOf(creation.id),
      pathOf(update.id),
      pathOf(update.id, "/failure/repair"),
      pathOf(HOSTILE_FAILURES[0]!.id),
      pathOf("evt_large_numbers"),
      "/notifications",
      `/subscription?id=${subscription}`,
      "/search?q=acc_42",
      "/nowhere",
    ];
    for (const width of [360, 1280]) {
      await page.setViewport({ width, height: 740 });
      for (const value of ["light", "dark"]) {
        await page.emulateMediaFeatures([
          { name: "prefers-color-scheme", value },
        ]);
        for (const path of paths) {
          await open(path);
          await assertWellMade(visitor);
        }
        const ground = String(
          await page.evaluate(
            "getComputedStyle(document.body).backgroundColor",
          ),
        );
        const isDark = Number(/\d+/.exec(ground)?.[0]) < 128;
        assertEquals(isDark, value === "dark", ground);
      }
    }
  });

  await test.step("a page says so if the database is away", async () => {
    await stack.postgrest.kill();
    assertStringIncludes(await open("/"), "The project did not answer");
  });

  // Of the whole visit: nothing ran, nothing was loaded, nothing was blocked.
  assertEquals(
    visitor.faults.filter((fault) => !/ 4\d\d | 50\d /.test(fault)),
    [],
  );
});

/** Downloads a payload as a browser with the cookie does. */
async function downloadOf({ page }: Visitor, id: string): Promise<string> {
  const { origin } = new URL(page.url());
  const cookies = await page.cookies();
  const response = await fetch(origin + pathOf(id, "/failure/payload"), {
    headers: {
      cookie: cookies.map(({ name, value }) => `${name}=${value}`).join("; "),
    },
  });
  assertStringIncludes(
    response.headers.get("content-disposition") ?? "",
    "attachment",
  );
  return await response.text();
}

/** Takes the picture of the repaired failure, for the docs. */
async function takePicture({ page }: Visitor): Promise<void> {
  await page.setViewport({ width: 1180, height: 1240, deviceScaleFactor: 1 });
  await Deno.mkdir(new URL(".", IMAGE), { recursive: true });
  await Deno.writeFile(IMAGE, await page.screenshot({ type: "png" }));
}
