/** @jsxImportSource hono/jsx */
/**
 * What surrounds each page, and the parts that several pages share.
 *
 * @module
 */
import type { Context, Hono } from "hono";
import type { Child } from "hono/jsx";
import { isLoopback } from "../common/loopback.ts";
import { PROVIDER_NAMES } from "../common/provider_settings.ts";
import type { Project } from "./project.ts";
import {
  formatTime,
  relativeTime,
  shortened,
  visible,
  visibleLines,
  visibleText,
} from "./text.tsx";

/** What to tell the operator after an action. */
export interface Notice {
  readonly kind: "good" | "bad";
  readonly text: string;
}

/** A condition that matches every provider, for indexes that begin with it. */
export const PROVIDERS = `in.(${PROVIDER_NAMES})`;

/** Fields of a form or of a URL. */
export type Fields = Readonly<Record<string, string>>;

type Status = 200 | 401 | 403 | 404 | 413 | 421 | 422 | 502;

/** What a screen needs. */
export interface Console {
  readonly app: Hono;
  readonly project: Project;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
  /** Answers with a page. The title may come from outside. */
  show(c: Context, title: string, content: Child, status?: Status): Response;
  /** Sends the browser to a page, which shows the result of an action once. */
  showResult(c: Context, path: string, notice: Notice): Response;
  /** Returns a form, with the statement that it runs for the SQL editor. */
  form(action: string, fields: Fields, content: Child, sql?: string): Child;
}

/** Answers with a document. */
export function html(
  c: Context,
  { title, head, body }: { title?: string; head?: Child; body: Child },
  status: Status = 200,
): Response {
  const document = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>{title && `${visibleText(title)} · `}Billing console</title>
        <link rel="icon" href="/icon.svg" />
        <link rel="stylesheet" href="/style.css" />
        {head}
      </head>
      <body>{body}</body>
    </html>
  );
  return c.html(`<!DOCTYPE html>${document}`, status);
}

const MENU = [
  ["/", "Overview"],
  ["/failures", "Failures"],
  ["/notifications", "Notifications"],
] as const;

/** Returns a page of the project, with the menu. */
export function pageBody(
  c: Context,
  { url, notice, content }: {
    url: string;
    notice: Notice | undefined;
    content: Child;
  },
): Child {
  const { path } = c.req;
  const { host } = new URL(url);
  const isHere = (to: string) =>
    path === to || to !== "/" && path.startsWith(to.slice(0, -1));
  const ids = "Account, subscription, customer or event ID";
  const label = { placeholder: ids, "aria-label": ids };
  const searched = path === "/search" ? c.req.query("q") : "";
  return (
    <>
      <header class="container spread">
        <nav aria-label="Pages">
          <strong>Billing console</strong>
          <small>{isLoopback(url) ? `local, ${host}` : host}</small>
          {MENU.map(([to, name]) => (
            <a href={to} aria-current={isHere(to) && "page"}>{name}</a>
          ))}
        </nav>
        <form role="search" action="/search">
          <input name="q" value={searched} required {...label} />
          <button>Search</button>
        </form>
      </header>
      <main class="container">
        {notice && (
          <article class={notice.kind} role="status">
            {visibleLines(notice.text)}
          </article>
        )}
        {content}
      </main>
      <footer class="container">
        <small>
          All times are UTC. Each action shows the SQL that it runs: the SQL
          editor works as well.
        </small>
      </footer>
    </>
  );
}

/** Returns a form for {@linkcode Console.form}. */
export function actionForm(
  action: string,
  fields: Fields,
  content: Child,
  sql?: string,
): Child {
  return (
    <form action={action} method="post">
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <fieldset>{content}</fieldset>
      {sql && (
        <details>
          <summary>The SQL that this runs</summary>
          <pre tabindex={0}>{sql}</pre>
        </details>
      )}
    </form>
  );
}

/** Returns a URL of the console with these fields, but for empty ones. */
export function link(path: string, fields: Fields): string {
  const given = Object.entries(fields).filter(([, value]) => value !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** Returns the fields of a form that are text. */
export async function readForm(c: Context): Promise<Fields> {
  const fields = Object.entries(await c.req.parseBody());
  return Object.fromEntries(
    fields.map((
      [name, value],
    ) => [name, typeof value === "string" ? value : ""]),
  );
}

/** Returns an answer of an SQL function without its advice for the SQL editor. */
export function firstSentences(answer: string): string {
  return answer.replace(/ (?:The worker|See:).*$/s, "");
}

/** Returns a number of things, such as "1 failure" or "2,000 failures". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

// In characters, as Postgres counts.

/** The receiver accepts no longer one, but stores what it refuses. */
const LONGEST_ID = 255;
/** As long as the reason for a resolution may be. */
const LONGEST_VALUE = 1_000;

/** Returns an ID that leads to a page, unless it is longer than any record's. */
export function linked(
  id: string | null,
  href = link("/search", { q: id ?? "" }),
): Child {
  if (id === null) return "–";
  const shown = shortened(id, LONGEST_ID);
  return shown === id ? <a href={href}>{visible(id)}</a> : visible(shown);
}

/** Returns a value from outside; a dash if there is none. */
export function value(text: string | number | null | undefined): Child {
  if (text === null || text === undefined) return "–";
  return visible(shortened(String(text), LONGEST_VALUE));
}

/** Returns a time with its distance from now; a dash if there is none. */
export function time(text: string | null | undefined): Child {
  if (!text) return "–";
  const distance = relativeTime(text);
  return [formatTime(text), " ", <small>{distance}</small>];
}

/** Returns a list of names and values. */
export function facts(entries: Readonly<Record<string, Child>>): Child {
  const rows = Object.entries(entries).map(([name, content]) => (
    <tr>
      <th scope="row">{name}</th>
      <td>{content}</td>
    </tr>
  ));
  return <table>{rows}</table>;
}

/**
 * Returns a table; on a narrow screen, each of its rows is a card.
 *
 * @param columns What the columns show, by their names.
 */
export function table<Row>(
  label: string,
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => Child>>,
): Child {
  const names = Object.keys(columns);
  const body = rows.map((row) => {
    const cells = names.map((name) => (
      <td data-label={name}>{columns[name]!(row)}</td>
    ));
    return <tr>{cells}</tr>;
  });
  return (
    <table aria-label={label}>
      <thead>
        <tr>{names.map((name) => <th scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>{body}</tbody>
    </table>
  );
}
