/**
 * The receiver's sections in a project's config.toml. They are appended as text,
 * as the CLI does, and everything else stays as it is. The result is read with
 * the CLI's own parser: unless it says what it said before and the sections, it
 * is not written.
 */
import { parse } from "smol-toml";
import { FUNCTIONS } from "../common/built.ts";

export interface Config {
  readonly name: string;
  readonly text: string;
  readonly content: unknown; // undefined if it is not TOML
}

/** Each function checks its caller itself. */
function settingsOf(name: string) {
  const entrypoint = `./functions/${name}/index.mjs`;
  return Object.entries({ entrypoint, verify_jwt: false });
}

function lineOf([key, value]: [string, unknown]): string {
  return `${key} = ${JSON.stringify(value)}`;
}

export function readConfig(name: string, text: string): Config {
  try {
    return { name, text, content: parse(text) };
  } catch {
    return { name, text, content: undefined };
  }
}

export function valueAt(content: unknown, keys: readonly string[]): unknown {
  return keys.reduce((value, key) => Object(value)[key], content);
}

/**
 * Plans how the sections get into a project's configuration: the whole new text,
 * if it changes, and what the user has to change.
 */
export function planConfig(config: Config): { text?: string; todo: string[] } {
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

  const sections = FUNCTIONS
    .filter((name) => valueAt(content, ["functions", name]) === undefined)
    .map(sectionOf).join("\n");
  if (sections === "") return { todo };
  const text = withSections(config, sections);
  if (text !== undefined) return { text, todo };
  return { todo: [...todo, `supabase/${file} needs\n\n${sections}`] };
}

function sectionOf(name: string): string {
  return `[functions.${name}]\n${settingsOf(name).map(lineOf).join("\n")}\n`;
}

/** The text with the sections behind it, if that reads as it should. */
function withSections({ name, text, content }: Config, sections: string) {
  if (content === undefined) return undefined;
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const isApart = text === "" || text.endsWith(end + end);
  const gap = isApart ? "" : text.endsWith(end) ? end : end + end;
  const after = text + gap + sections.replaceAll("\n", end);

  const functions = {
    ...valueAt(content, ["functions"]) as object | undefined,
    ...valueAt(parse(sections), ["functions"]) as object,
  };
  const wanted = { ...content as object, functions };
  const { content: found } = readConfig(name, after);
  return JSON.stringify(found) === JSON.stringify(wanted) ? after : undefined;
}

/** What the sections that are there lack. */
function differences(content: unknown, place: readonly string[]): string[] {
  return FUNCTIONS.flatMap((name) => {
    const keys = [...place, "functions", name];
    const section = valueAt(content, keys);
    const wrong = settingsOf(name).filter(([key, wanted]) => {
      const value = valueAt(section, [key]);
      // A remote has the rest from the section above.
      return value !== wanted && !(value === undefined && place.length > 0);
    });
    return section === undefined
      ? []
      : wrong.map((line) => `[${keys.join(".")}] needs ${lineOf(line)}`);
  });
}
