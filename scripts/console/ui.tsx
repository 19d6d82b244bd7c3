/** @jsxImportSource hono/jsx */
/**
 * The parts of pages. JSX escapes markup; {@linkcode visible} shows the invisible
 * characters in text from outside, such as those that reorder it.
 */
import type { Context, Hono } from "hono";
import type { Child } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { HIDDEN } from "../common/cli.ts";
import { ProjectError } from "../common/project_api.ts";
import type { Project } from "./project.ts";

export const PAGE_SIZE = 50;

export type Fields = Readonly<Record<string, string>>;

export interface Notice {
  readonly done?: string;
  readonly problem?: string;
}

export interface Console {
  readonly app: Hono;
  readonly project: Project;
  show(
    c: Context,
    title: string,
    content: Child,
    status?: ContentfulStatusCode,
  ): Response;
  /** Redirects to a page, which shows the result of an action once. */
  showResult(c: Context, path: string, notice: Notice): Response;
}

export function link(path: string, fields: Fields): string {
  const given = Object.entries(fields).filter(([, value]) => value !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

export async function readForm(c: Context): Promise<Fields> {
  const fields = Object.entries(await c.req.parseBody());
  return Object.fromEntries(fields.map(([name, text]) => [name, `${text}`]));
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Returns why the project refused something. */
export function faultsOf(error: unknown): readonly string[] {
  if (!(error instanceof ProjectError)) throw error;
  const faults = error.message.split("\n");
  if (error.isUnknown) {
    faults.push(
      "The change may have been made: open this page in another tab to see.",
    );
  }
  return faults;
}

/** Returns the result of an action, or why the project refused it. */
export async function attempt(
  act: () => Promise<Notice>,
): Promise<Notice> {
  try {
    return await act();
  } catch (error) {
    return { problem: faultsOf(error).join("\n") };
  }
}

/** The advice is for the SQL editor. */
export function withoutAdvice(answer: string): string {
  return answer.replace(/ (?:The worker|See:).*$/s, "");
}

/** Returns a text with each hidden character replaced by its code, as U+202E. */
export function visible(text: string): Child {
  const codeOf = (hidden: string) =>
    hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
  const parts = text.split(new RegExp(`(${HIDDEN.source})`, "u"));
  const shown = parts.map((part, i) =>
    i % 2 === 0 ? part : <mark>U+{codeOf(part)}</mark>
  );
  return <bdi>{shown}</bdi>;
}

export function visibleLines(text: string): Child {
  return text.split("\n").map((line, i) => [i > 0 && <br />, visible(line)]);
}

export function shortened(text: string, length: number): string {
  // Texts may be very long. A character is one or two UTF-16 units.
  const characters = [...text.slice(0, 2 * length + 1)];
  if (characters.length <= length) return text;
  return `${characters.slice(0, length).join("")}…`;
}

export function value(text: unknown): Child {
  return text === null ? "–" : visible(shortened(String(text), 1_000));
}

/** Returns an ID as a link, unless it is longer than any record's. */
export function linked(
  id: string | null,
  href = link("/search", { q: id ?? "" }),
): Child {
  if (id === null) return "–";
  // The receiver refuses longer IDs, but stores the failed event.
  const shown = shortened(id, 255);
  return shown === id ? <a href={href}>{visible(id)}</a> : visible(shown);
}

export function time(text: string | null): Child {
  const timeMs = Date.parse(text ?? "");
  if (Number.isNaN(timeMs)) return text ?? "–"; // such as infinity
  const shown = new Date(timeMs).toISOString().slice(0, 19).replace("T", " ");
  return [`${shown} UTC `, <small>{distance(timeMs)}</small>];
}

const UNITS = [
  [48 * 3_600, 86_400, "days"],
  [3_600, 3_600, "h"],
  [60, 60, "min"],
  [0, 1, "s"],
] as const;

export function distance(timeMs: number, nowMs = Date.now()): string {
  const seconds = Math.abs(timeMs - nowMs) / 1000;
  const [, size, name] = UNITS.find(([from]) => seconds >= from)!;
  const amount = `${Math.floor(seconds / size)} ${name}`;
  return timeMs > nowMs ? `in ${amount}` : `${amount} ago`;
}

export function facts(row: object, columns: string): Child {
  const values = new Map(Object.entries(row));
  const shown = (name: string): Child => {
    const content = values.get(name);
    if (/_(?:at|as_of|since|end)$/.test(name)) return time(content);
    return /^(?:account|subscription)_id$/.test(name)
      ? linked(content)
      : value(content);
  };

  const rows = columns.split(",").filter((name) => values.get(name) !== null)
    .map((name) => (
      <tr>
        <th scope="row">{name.replaceAll("_", " ").replace(/ id$/, " ID")}</th>
        <td>{shown(name)}</td>
      </tr>
    ));
  return <table>{rows}</table>;
}

/** Returns a table. On a phone, rows of four columns or more become cards. */
export function table<Row>(
  label: string,
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => Child>>,
): Child {
  const shown = Object.entries(columns);
  const cells = (row: Row) =>
    shown.map(([name, show]) => <td data-label={name}>{show(row)}</td>);

  return (
    <table aria-label={label} class={shown.length > 3 ? "cards" : ""}>
      <thead>
        <tr>{shown.map(([name]) => <th scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>{rows.map((row) => <tr>{cells(row)}</tr>)}</tbody>
    </table>
  );
}

export function form(path: string, fields: Fields, content: Child): Child {
  return (
    <form action={path} method="post">
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <fieldset>{content}</fieldset>
    </form>
  );
}

export function field(label: string, attributes: Record<string, unknown>) {
  return (
    <label>
      {label} <input {...attributes} />
    </label>
  );
}

export function reasonFields(): Child {
  return [
    field("Reason", { name: "reason", required: true, maxlength: 1000 }),
    field("Your name", { name: "who", required: true, maxlength: 200 }),
  ];
}
