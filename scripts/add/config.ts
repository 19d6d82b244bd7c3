/**
 * The receiver's sections in a project's config.toml. They are appended and removed as
 * text, as the CLI does. The result is read with the CLI's own parser: unless the two
 * texts differ by the sections alone, it is not written.
 */
import { isDeepStrictEqual } from "node:util";
import { parse } from "smol-toml";
import { FUNCTIONS } from "../common/built.ts";

export interface Config {
  readonly name: string;
  readonly text: string;
  readonly content: unknown; // undefined if it is not TOML
}

const CHECKS: Readonly<Record<string, string>> = {
  "billing-webhook": "Its callers have no JWT: it checks their signature.",
  "billing-worker": "Its caller has no JWT: it checks for a secret key.",
};

function settingsOf(name: string) {
  const entrypoint = `./functions/${name}/index.mjs`;
  return Object.entries({ entrypoint, verify_jwt: false });
}

function lineOf([key, value]: [string, unknown]): string {
  return `${key} = ${JSON.stringify(value)}`;
}

export function readConfig(name: string, text: string): Config {
  try {
    // Of plain objects, to be compared.
    return { name, text, content: structuredClone(parse(text)) };
  } catch {
    return { name, text, content: undefined };
  }
}

export function valueAt(content: unknown, keys: readonly string[]): unknown {
  return keys.reduce((value, key) => Object(value)[key], content);
}

/** Returns the whole new text, if it changes, and what the user has to change. */
export function planConfig(config: Config): { text?: string; todo: string[] } {
  const { name: file, content } = config;
  const todo = sectionsIn(content)
    .flatMap((keys) => differences(content, keys))
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

export function planConfigRemoval(config: Config) {
  const { name: file, text, content } = config;
  let rest = config;
  for (const section of FUNCTIONS.map(sectionOf)) {
    const without = readConfig(file, withoutSection(rest.text, section));
    const isRight = isDeepStrictEqual(
      withFunctions(without.content, section),
      rest.content,
    );
    if (isRight) rest = without;
  }

  const left = content === undefined
    ? FUNCTIONS.filter((name) => text.includes(name))
    : sectionsIn(rest.content).map((keys) => `[${keys.join(".")}]`);
  const todo = left.map((what) => `In supabase/${file}, delete ${what}.`);
  return { text: rest.text, todo };
}

function sectionOf(name: string): string {
  const lines = settingsOf(name).map(lineOf);
  const section = [`[functions.${name}]`, `# ${CHECKS[name]}`, ...lines, ""];
  return section.join("\n");
}

/** Returns undefined if the result does not read as it should. */
function withSections({ name, text, content }: Config, sections: string) {
  if (content === undefined) return undefined;
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  // An empty line, which goes with the section when that is removed.
  const gap = text === "" ? "" : text.endsWith(end) ? end : end + end;
  const after = text + gap + sections.replaceAll("\n", end);

  const { content: found } = readConfig(name, after);
  const wanted = withFunctions(content, sections);
  return isDeepStrictEqual(found, wanted) ? after : undefined;
}

function withoutSection(text: string, section: string): string {
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const lines = `\n${section}`.replaceAll("\n", end);
  return (end + text).replace(lines, "").replace(/^\r?\n/, "");
}

function withFunctions(content: unknown, sections: string) {
  const added = readConfig("", sections).content;
  const functions = {
    ...valueAt(content, ["functions"]) as object | undefined,
    ...valueAt(added, ["functions"]) as object,
  };
  return { ...content as object, functions };
}

function sectionsIn(content: unknown): string[][] {
  const remotes = Object.keys(valueAt(content, ["remotes"]) ?? {});
  return [[], ...remotes.map((remote) => ["remotes", remote])]
    .flatMap((place) => FUNCTIONS.map((name) => [...place, "functions", name]))
    .filter((keys) => valueAt(content, keys) !== undefined);
}

function differences(content: unknown, keys: readonly string[]): string[] {
  const isRemote = keys[0] === "remotes";
  const wrong = settingsOf(keys.at(-1)!).filter(([key, wanted]) => {
    const value = valueAt(content, [...keys, key]);
    // A remote has the rest from the section above.
    return value !== wanted && !(value === undefined && isRemote);
  });
  return wrong.map((line) => `[${keys.join(".")}] needs ${lineOf(line)}`);
}
