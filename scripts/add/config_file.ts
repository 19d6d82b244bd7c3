import { parse } from "smol-toml";

/** A project's configuration file. */
export interface ConfigFile {
  /** The CLI prefers them in the order `config.json`, `.jsonc`, `.toml`. */
  readonly name: string;
  readonly text: string;
}

/** A table of TOML, or an object of JSON. */
export type Table = { readonly [key: string]: unknown };

/** Returns the file's content; undefined if it is not valid. */
export function readConfig({ name, text }: ConfigFile): Table | undefined {
  try {
    if (name.endsWith(".toml")) return parse(text) as Table;
    const content = JSON.parse(withoutComments(text.replace(/^\ufeff/, "")));
    return typeof content === "object" && content !== null
      ? content
      : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the table below a key; an empty one if there is none. */
export function tableIn(table: Table, key: string): Table {
  const value = Object.hasOwn(table, key) ? table[key] : undefined;
  return typeof value === "object" && value !== null ? value as Table : {};
}

/** JSON for JSON with comments and trailing commas. */
function withoutComments(text: string): string {
  return text
    .replace(/("(?:\\.|[^"\\])*")|\/\/.*|\/\*[^]*?\*\//g, "$1")
    .replace(/("(?:\\.|[^"\\])*")|,(?=\s*[}\]])/g, "$1");
}
