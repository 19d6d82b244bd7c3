/**
 * A person at the console: a page of a browser that notes all that a page must
 * not do, and the keyboard.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { Browser, Page } from "puppeteer-core";

/** A page of a browser that was let in. */
export interface Visitor {
  readonly page: Page;
  /** Goes to a path, and returns the text of the page. */
  open(path: string): Promise<string>;
  /** The text of the page, as it is shown. */
  text(): Promise<string>;
  /** Presses Tab until the element has the focus. */
  tabTo(selector: string): Promise<void>;
  /** Presses Enter there, and waits for the next page. */
  enter(): Promise<string>;
  /** What the pages did that they must not do. */
  readonly faults: readonly string[];
}

const MAX_TABS = 80;

/** Opens the console's link in a new profile of the browser. */
export async function enterConsole(
  browser: Browser,
  link: string,
): Promise<Visitor> {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const { origin } = new URL(link);
  const faults: string[] = [];
  page.on("console", (message) => faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error}`));
  page.on("dialog", async (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    // A data: URL is the browser's own icon, or the policy reports it.
    if (
      !/^data:/.test(request.url()) && !request.url().startsWith(`${origin}/`)
    ) {
      faults.push(`request: ${request.url()}`);
    }
  });
  // The policy does not hold for what the tests themselves run in the page.
  await page.evaluateOnNewDocument(`
    addEventListener("securitypolicyviolation", (event) =>
      console.error("policy", event.effectiveDirective, event.blockedURI));
  `);
  await page.goto(link);

  async function text() {
    return await page.$eval("body", (body) => body.innerText);
  }

  async function open(path: string) {
    await page.goto(origin + path);
    return await text();
  }

  async function tabTo(selector: string) {
    for (let i = 0; i < MAX_TABS; i++) {
      const isThere = await page.evaluate(
        `document.activeElement.matches(${JSON.stringify(selector)})`,
      );
      if (isThere) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`No ${selector} gets the focus on ${page.url()}`);
  }

  async function enter() {
    await Promise.all([
      page.waitForNavigation(),
      page.keyboard.press("Enter"),
    ]);
    return await text();
  }

  return { page, open, text, tabTo, enter, faults };
}

/** What a page is made of. It runs in the page. */
const LOOK = `(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const html = (elements) => elements.map(({ outerHTML }) => outerHTML);
  const ids = all("[id]").map(({ id }) => id);
  return {
    language: document.documentElement.lang,
    headings: all("h1").length,
    lacks: ["title", "header", "nav", "main", "footer"].filter((name) =>
      !document.querySelector(name)?.textContent.trim()),
    active: html(all(
      "script, img:not([src='/hours.svg']), iframe, object, embed, [style]")),
    handlers: all("*").filter((element) =>
      element.getAttributeNames().some((name) => name.startsWith("on"))).length,
    unlabelled: html(all("input:not([type=hidden]), select, textarea")
      .filter((field) => field.labels.length !== 1)),
    unreadable: html(all("img:not([alt])")),
    unloaded: html(all("img").filter((image) => image.naturalWidth === 0)),
    nameless: html(all("a, button").filter((one) => !one.textContent.trim())),
    twice: ids.filter((id, i) => ids.indexOf(id) !== i),
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
  };
})()`;

/** Asserts what holds for every page of the console, whatever it shows. */
export async function assertWellMade({ page }: Visitor): Promise<void> {
  assertEquals(await page.evaluate(LOOK), {
    language: "en",
    headings: 1,
    lacks: [],
    active: [],
    handlers: 0,
    unlabelled: [],
    unreadable: [],
    unloaded: [],
    nameless: [],
    twice: [],
    overflow: 0,
  }, page.url());
}
