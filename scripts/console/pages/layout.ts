import { type Html, html } from "../html.ts";
import { isLoopback } from "../../common/loopback.ts";
import type { Notice } from "../session.ts";
import { visibleLines, visibleText } from "../visible.ts";

/** The entries of the menu, by their paths. */
const MENU = {
  "/": "Overview",
  "/failures": "Failures",
  "/notifications": "Notifications",
} as const;

/** What surrounds the content of a page. */
export interface Frame {
  readonly projectUrl: string;
  /** The path of the page. */
  readonly path: string;
  readonly notice: Notice | undefined;
  /** What was searched for. */
  readonly searched?: string;
}

/** Returns a whole page. The title may come from outside. */
export function layout(
  { title, content }: { title: string; content: Html },
  { projectUrl, path, notice, searched = "" }: Frame,
): Html {
  const place = isLoopback(projectUrl)
    ? `local, ${new URL(projectUrl).host}`
    : new URL(projectUrl).host;
  return html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>${visibleText(title)} · Billing console</title>
        <link rel="icon" href="/icon.svg">
        <link rel="stylesheet" href="/style.css">
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header>
          <div class="bar">
            <p
              class="brand">Billing console <span class="place ${isLoopback(
                  projectUrl,
                )
                ? ""
                : "hosted"}">${place}</span></p>
            <nav aria-label="Pages">${Object.entries(MENU).map(([to, name]) => {
              const isHere = to === "/"
                ? path === "/"
                : path.startsWith(to.slice(0, -1));
              return html`
                <a href="${to}" ${isHere
                  ? html`
                    aria-current="page"
                  `
                  : ""}>${name}</a>
              `;
            })}</nav>
            <form role="search" action="/search" method="get">
              <label class="for-readers"
                for="q">Search by account, subscription, customer or event ID</label>
              <input type="search" id="q" name="q" value="${searched}"
                placeholder="Account, subscription, customer or event ID" required>
              <button>Search</button>
            </form>
          </div>
        </header>
        <main id="main">
    ${notice === undefined
      ? ""
      : html`<div class="notice ${notice.kind}" role="status">${
        visibleLines(notice.text)
      }</div>`}
    ${content}
        </main>
        <footer>
          <p>All times are UTC. Each action shows the SQL that it runs: the SQL editor works as well.</p>
        </footer>
      </body>
    </html>
  `;
}
