/** @jsxImportSource hono/jsx */
/** The frame of each page, and the style sheet that pages load. */
import pico from "@picocss/pico" with { type: "text" };
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { isLoopback } from "../common/loopback.ts";
import { HIDDEN } from "../common/cli.ts";
import { type Notice, visibleLines } from "./ui.tsx";

export const STYLE = `${pico}
:root { --pico-font-size: 95%; }
h1 { --pico-font-size: 1.4rem; }
h2 { --pico-font-size: 1.15rem; }
bdi, code, pre, td { overflow-wrap: anywhere; }
td strong bdi, [data-label="Kind"] bdi { overflow-wrap: normal; }
pre { padding: 0.5rem; white-space: pre-wrap; }
pre > * { display: block; text-decoration: none; }
textarea { font-family: monospace; }
th::first-letter { text-transform: uppercase; }
td small { display: block; }
.good { color: var(--pico-ins-color); }
.bad { color: var(--pico-del-color); --pico-h2-color: currentcolor; }
nav, .spread { display: flex; flex-wrap: wrap; gap: 0 1.5rem; justify-content: start; }
.spread { justify-content: space-between; }
figure svg { width: 100%; height: 8rem; fill: var(--pico-primary); }
svg .bad { fill: currentcolor; }
.days { display: grid; grid-template-columns: repeat(3, 1fr); }
.days > * { border-left: 1px solid; padding-left: 0.3rem; }
.cards td { min-width: 7rem; }
@media (max-width: 767px) {
  th, td { padding-inline: 0.4rem; }
  .cards thead { display: none; }
  .cards tr, .cards td { display: block; border: 0; padding: 0.2rem 0; }
  .cards tr { margin-bottom: 1rem; }
  .cards td::before { content: attr(data-label) ": "; }
}
`;

/** Returns an HTML document. Its title may contain text from outside. */
export function html(
  c: Context,
  { title, head, body }: { title?: string; head?: Child; body: Child },
  status: ContentfulStatusCode = 200,
): Response {
  const name = title ? `${title} · Billing console` : "Billing console";

  const document = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>{name.replaceAll(HIDDEN, "\uFFFD")}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="/style.css" />
        {head}
      </head>
      <body>{body}</body>
    </html>
  );
  return c.html(`<!DOCTYPE html>${document}`, status);
}

const MENU = {
  "/": "Overview",
  "/failures": "Failures",
  "/notifications": "Notifications",
};

export function page(
  c: Context,
  { url, notice, content }: {
    url: string;
    notice: Notice | undefined;
    content: Child;
  },
): Child {
  const searched = c.req.path === "/search" ? c.req.query("q") : "";
  return (
    <>
      <header class="container">
        {menu(c.req.path, url)}
        {searchForm(searched)}
      </header>

      <main class="container">
        {notice && (
          <article class={notice.problem ? "bad" : "good"} role="status">
            {visibleLines(
              `${notice.done ?? ""}\n${notice.problem ?? ""}`.trim(),
            )}
          </article>
        )}
        {content}
      </main>

      <footer class="container">
        <small>All times are UTC.</small>
      </footer>
    </>
  );
}

function menu(path: string, url: string) {
  const { host } = new URL(url);
  const isHere = (to: string) =>
    path === to || to !== "/" && path.startsWith(to.slice(0, -1));
  return (
    <nav aria-label="Pages">
      <strong>Billing console</strong>
      {Object.entries(MENU).map(([to, name]) => (
        <a href={to} aria-current={isHere(to) && "page"}>{name}</a>
      ))}
      <small>{isLoopback(url) ? `local, ${host}` : host}</small>
    </nav>
  );
}

function searchForm(searched: string | undefined) {
  const ids = "Account, subscription, customer or event ID";
  return (
    <form role="search" action="/search">
      <input
        name="q"
        value={searched}
        required
        placeholder={ids}
        aria-label={ids}
      />
      <button>Search</button>
    </form>
  );
}
