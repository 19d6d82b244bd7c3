/**
 * The receiver's sections in a project's config.toml. They are appended as text,
 * as the CLI does, and everything else stays as it is. The result is read with
 * the CLI's own parser: unless it says what it said before and the sections, it
 * is not written.
 *
 * @module
 */
import { parse } from "smol-toml";

/** A project's configuration file. */
export interface Config {
  readonly name: string;
  readonly text: string;
  /** Undefined if it is not TOML. */
  readonly content: unknown;
}

/** Each function checks its caller itself, and its lock file is uploaded. */
const SETTINGS = new Map(
  ["billing-webhook", "billing-worker"].map((name) => [name, {
    verify_jwt: "false",
    static_files: `["./functions/${name}/deno.lock"]`,
  }]),
);

/** Reads a configuration file. */
export function readConfig(name: string, text: string): Config {
  try {
    return { name, text, content: parse(text) };
  } catch {
    return { name, text, content: undefined };
  }
}

/** Returns what is at a path of keys; undefined if there is nothing. */
export function valueAt(content: unknown, keys: readonly string[]): unknown {
  return keys.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key)
        ? (value as Record<string, unknown>)[key]
        : undefined,
    content,
  );
}

/**
 * Plans how the sections get into a project's configuration: the whole new text,
 * if it changes, and what the user has to change.
 */
export function planConfig(
  config: Config,
): { text?: string; todo: string[] } {
  const { name: file, content } = config;
  const remotes = Object.keys(valueAt(content, ["remotes"]) ?? {});
  const todo = [[], ...remotes.map((remote) => ["remotes", remote])]
    .flatMap((place) => differences(content, place))
    .map((difference) => `In supabase/${file}, ${difference}.`);
  if (valueAt(content, ["db", "migrations", "enabled"]) === false) {
    todo.push(
      `In supabase/${file}, [db.migrations] needs enabled = true: without it, "supabase db push" applies nothing.`,
    );
  }
  const sections = [...SETTINGS.keys()]
    .filter((name) => valueAt(content, ["functions", name]) === undefined)
    .map(sectionOf).join("\n");
  if (sections === "") return { todo };
  const text = withSections(config, sections);
  return text === undefined
    ? { todo: [...todo, `supabase/${file} needs\n\n${sections}`] }
    : { text, todo };
}

/** Returns a function's section. */
export function sectionOf(name: string): string {
  const settings = Object.entries(SETTINGS.get(name)!);
  const lines = settings.map(([key, value]) => `${key} = ${value}\n`);
  return `[functions.${name}]\n${lines.join("")}`;
}

/** The text with the sections behind it, if that reads as it should. */
function withSections(
  { name, text, content }: Config,
  sections: string,
): string | undefined {
  if (content === undefined) return undefined;
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const isApart = text === "" || text.endsWith(end + end);
  const gap = isApart ? "" : text.endsWith(end) ? end : end + end;
  const after = text + gap + sections.replaceAll("\n", end);
  const functions = {
    ...valueAt(content, ["functions"]) as object | undefined,
    ...valueAt(parse(sections), ["functions"]) as object,
  };
  const found = readConfig(name, after).content;
  return isSame(found, { ...content as object, functions }) ? after : undefined;
}

/** What the sections that are there lack; a list may have more. */
function differences(content: unknown, place: readonly string[]): string[] {
  return Array.from(SETTINGS, ([name, settings]) => {
    const keys = [...place, "functions", name];
    const wrong = Object.entries(settings).filter(([key, text]) => {
      const value = valueAt(content, [...keys, key]);
      const wanted = JSON.parse(text);
      return !isSame(value, wanted) &&
        !(Array.isArray(value) && value.includes(wanted[0]));
    });
    if (valueAt(content, keys) === undefined) return [];
    return wrong.map(([key, text]) =>
      `[${keys.join(".")}] needs ${key} = ${text}`
    );
  }).flat();
}

function isSame(value: unknown, other: unknown): boolean {
  return JSON.stringify(value) === JSON.stringify(other);
}
