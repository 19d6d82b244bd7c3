/**
 * A real browser from npm, in front of a stack and a console of its own: a build
 * of Chromium that needs no installed browser, no fonts and no libraries but the
 * C library's.
 *
 * @module
 */
import chromium, { inflate } from "@sparticuz/chromium";
import { assertEquals } from "@std/assert";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import puppeteer, { type Browser } from "puppeteer-core";

/** What Chromium needs besides the C library, as the package brings it. */
const LIBRARIES = fileURLToPath(
  new URL("../bin/al2023.tar.br", import.meta.resolve("@sparticuz/chromium")),
);

/** @throws {Error} It says what is missing. The tests do not skip. */
export async function startBrowser(): Promise<Browser> {
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

/** A person at the console, with the keyboard. */
export type Visitor = Awaited<ReturnType<typeof enterConsole>>;

/** Opens the console's link in a new profile of the browser. */
export async function enterConsole(browser: Browser, link: string) {
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

  /** Presses Tab until the element has the focus. */
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

  /** Goes to an element by keyboard, presses Enter, and reads the next page. */
  async function enter(selector: string): Promise<string> {
    await tabTo(selector);
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    return await text();
  }

  /** Returns the texts of elements. */
  async function texts(selector: string): Promise<string[]> {
    return await page.$$eval(
      selector,
      (shown) => shown.map(({ textContent }) => textContent ?? ""),
    );
  }

  return { page, faults, origin, open, tabTo, enter, texts };
}

/** What a page is made of. It runs in the page. */
const LOOK = `(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const html = (elements) => elements.map(({ outerHTML }) => outerHTML);
  return {
    headings: all("h1").length,
    active: html(all(
      "script, img:not([src='/hours.svg']), iframe, object, embed, [style]")),
    handlers: html(all("*").filter((element) =>
      element.getAttributeNames().some((name) => name.startsWith("on")))),
    unlabelled: html(all("input:not([type=hidden]), select, textarea")
      .filter((field) => !field.labels.length && !field.ariaLabel)),
    unloaded: html(all("img").filter((image) => image.naturalWidth === 0)),
    nameless: html(all("a, button").filter((one) => !one.textContent.trim())),
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
  };
})()`;

/** Asserts what holds for every page of the console, whatever it shows. */
export async function assertWellMade({ page }: Visitor): Promise<void> {
  assertEquals(await page.evaluate(LOOK), {
    headings: 1,
    active: [],
    handlers: [],
    unlabelled: [],
    unloaded: [],
    nameless: [],
    overflow: 0,
  }, page.url());
}
