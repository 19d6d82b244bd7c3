/**
 * The receiver's sections in a project's config.toml. They are appended as text,
 * as the CLI does, and everything else stays as it is. The result is read with
 * the CLI's own parser: unless it says what it said before and the sections, it
 * is not written.
 *
 * @module
 */
import { isDeepStrictEqual } from "node:util";
import { parse } from "smol-toml";
import { appended } from "./append.ts";
import {
  type ConfigFile,
  readConfig,
  type Table,
  tableIn,
} from "./config_file.ts";

/** What to do with it. */
export interface ConfigPlan {
  /** The whole new text, if it changes. */
  readonly text: string | undefined;
  /** What the user has to change, each of one line or more. */
  readonly todo: readonly string[];
  readonly warnings: readonly string[];
}

/** Returns the text of each `[functions.*]` section of a config.toml. */
export function sectionsOf(text: string): ReadonlyMap<string, string> {
  const sections = text.matchAll(
    /^\[functions\.([\w-]+)\]\n(?:(?!\[).*\S.*(?:\n|$))*/gm,
  );
  return new Map(
    Array.from(sections, ([section, name = ""]) => [name, section]),
  );
}

/** Plans how the sections get into a project's configuration. */
export function planConfig(
  file: ConfigFile,
  sections: ReadonlyMap<string, string>,
): ConfigPlan {
  const before = readConfig(file);
  if (before === undefined) {
    return {
      text: undefined,
      todo: [
        `supabase/${file.name} cannot be read. It needs\n\n${
          shown(file, sections)
        }`,
      ],
      warnings: [],
    };
  }
  const present = tableIn(before, "functions");
  const missing = new Map(
    [...sections].filter(([name]) => !Object.hasOwn(present, name)),
  );
  const todo = [...sections].filter(([name]) => !missing.has(name))
    .flatMap(([name, section]) =>
      differences(file, { name, section, present })
    );
  const warnings = warningsOf(before, { file, sections });
  if (missing.size === 0) return { text: undefined, todo, warnings };
  const text = file.name.endsWith(".toml")
    ? withSections(file, { before, missing })
    : undefined;
  if (text !== undefined) return { text, todo, warnings };
  const paste = `Put this into supabase/${file.name}:\n\n${
    shown(file, missing)
  }`;
  return { text, todo: [paste, ...todo], warnings };
}

/** The text with the sections behind it, if that reads as it should. */
function withSections(
  { name, text }: ConfigFile,
  { before, missing }: { before: Table; missing: ReadonlyMap<string, string> },
): string | undefined {
  const part = [...missing.values()].map((it) => it.trimEnd()).join("\n\n");
  const after = appended(text, `${part}\n`);
  const wanted = {
    ...before,
    functions: {
      ...tableIn(before, "functions"),
      ...tableIn(parse(part), "functions"),
    },
  };
  return isDeepStrictEqual(
      plain(readConfig({ name, text: after })),
      plain(wanted),
    )
    ? after
    : undefined;
}

/** What a section that is there already lacks. */
function differences(
  file: ConfigFile,
  { name, section, present }: { name: string; section: string; present: Table },
): string[] {
  const wanted = tableIn(tableIn(parse(section), "functions"), name);
  const has = tableIn(present, name);
  return Object.entries(wanted)
    .filter(([key, value]) => !includes(has[key], value))
    .map(([key, value]) =>
      `In supabase/${file.name}, ${name} needs ${key} = ${
        JSON.stringify(value)
      }.`
    );
}

/** Whether a value is the wanted one; a list may have more. */
function includes(value: unknown, wanted: unknown): boolean {
  if (!Array.isArray(wanted)) return isDeepStrictEqual(value, wanted);
  return Array.isArray(value) && wanted.every((item) => value.includes(item));
}

function warningsOf(
  config: Table,
  { file, sections }: {
    file: ConfigFile;
    sections: ReadonlyMap<string, string>;
  },
): string[] {
  const warnings: string[] = [];
  if (tableIn(tableIn(config, "db"), "migrations")["enabled"] === false) {
    warnings.push(
      `[db.migrations] has enabled = false: "supabase db push" applies
  nothing. Set it to true in supabase/${file.name}.`,
    );
  }
  const remotes = tableIn(config, "remotes");
  for (const remote of Object.keys(remotes)) {
    const functions = tableIn(tableIn(remotes, remote), "functions");
    for (const name of sections.keys()) {
      if (!Object.hasOwn(functions, name)) continue;
      if (tableIn(functions, name)["verify_jwt"] === false) continue;
      warnings.push(
        `[remotes.${remote}.functions.${name}] wins for that project:
  set verify_jwt = false there too.`,
      );
    }
  }
  return warnings;
}

/** The sections in the form of the file. */
function shown(
  { name }: ConfigFile,
  sections: ReadonlyMap<string, string>,
): string {
  const text = [...sections.values()].map((it) => it.trimEnd()).join("\n\n");
  return name.endsWith(".toml") ? text : JSON.stringify(parse(text), null, 2);
}

/** Without the prototypes and classes of the parser. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value ?? null));
}
