/// <reference lib="dom" />
/**
 * A person at the console: a page of a browser that notes all that a page must
 * not do, and the keyboard.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
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
  await page.evaluateOnNewDocument(() => {
    globalThis.addEventListener("securitypolicyviolation", (event) => {
      const { effectiveDirective, blockedURI } = event as unknown as Record<
        string,
        string
      >;
      console.error(`policy: ${effectiveDirective} ${blockedURI}`);
    });
  });
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
        (selector) => document.activeElement?.matches(selector) ?? false,
        selector,
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

/** Asserts what holds for every page of the console, whatever it shows. */
export async function assertWellMade({ page }: Visitor): Promise<void> {
  const made = await page.evaluate(() => {
    const all = (selector: string) => [...document.querySelectorAll(selector)];
    const ids = all("[id]").map(({ id }) => id);
    return {
      path: location.pathname,
      language: document.documentElement.lang,
      hasTitle: document.title.length > 0,
      headings: all("h1").length,
      landmarks: ["header", "nav", "main", "footer"].filter((name) =>
        document.querySelector(name) === null
      ),
      active: all(
        "script, iframe, object, embed, [onload], [onerror], [onclick], [style]",
      )
        .map(({ outerHTML }) => outerHTML),
      images: all("img").length,
      unlabelled: all("input:not([type=hidden]), select, textarea")
        .filter((field) => (field as HTMLInputElement).labels?.length !== 1)
        .map(({ outerHTML }) => outerHTML),
      nameless: all("a, button").filter((element) =>
        (element.textContent ?? "").trim() === ""
      ).map(({ outerHTML }) => outerHTML),
      twice: ids.filter((id, i) => ids.indexOf(id) !== i),
      overflow: document.documentElement.scrollWidth - innerWidth,
    };
  });
  assert(made.hasTitle, made.path);
  assertEquals({ ...made, path: "", overflow: Math.max(0, made.overflow) }, {
    path: "",
    language: "en",
    hasTitle: true,
    headings: 1,
    landmarks: [],
    active: [],
    images: 0,
    unlabelled: [],
    nameless: [],
    twice: [],
    overflow: 0,
  }, made.path);
}
